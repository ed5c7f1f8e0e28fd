"""Most memory that PyTorch's CPU allocator has given out during a step, as all threads allocate and free."""

from __future__ import annotations

import ctypes
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LAST = "windtunnel last step"
_COUNTS = "FLAGS_caffe2_report_cpu_memory_usage"
"""Switch of libc10: the allocator counts in every thread. The profiler alone counts in its own."""


@contextmanager
def _every_thread() -> Iterator[None]:
    """Count what every thread frees.

    Gloo's threads often hold the last reference to a buffer. Without the switch (a build of PyTorch that does not have
    it) what they free is never subtracted, and the peak is too high by another amount each time.
    """
    import torch

    try:
        library = next((Path(torch.__file__).parent / "lib").glob("*c10.*"))
        switch = ctypes.c_bool.in_dll(ctypes.CDLL(str(library)), _COUNTS)
    except (StopIteration, OSError, ValueError):
        yield
        return
    switch.value = True
    try:
        yield
    finally:
        switch.value = False


def peak_on_cpu(build: Callable[[], Callable[[], Any]]) -> tuple[Callable[[], Any], float]:
    """Build a step and run it three times; the step, and the peak of the third in bytes.

    From the first tensor on: what is alive before a profile begins is not in it. The third, since DDP builds its
    buckets anew after the first and the optimizer's state appears in it.
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    with _every_thread(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        step = build()
        for _ in range(2):
            step()
        with record_function(_LAST):
            step()
    return step, _most(found)


def _most(found: Any) -> float:
    """Highest `Total Allocated` of the memory events from the last step on, over what the counter began with."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        found.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    memory = sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: float(e["ts"]))
    if not memory:
        return 0.0
    begun = min((float(e["ts"]) for e in events if e.get("name") == _LAST), default=0.0)
    before = float(memory[0]["args"]["Total Allocated"]) - float(memory[0]["args"]["Bytes"])  # of an earlier profile
    return max(float(e["args"]["Total Allocated"]) for e in memory if float(e["ts"]) >= begun) - before
