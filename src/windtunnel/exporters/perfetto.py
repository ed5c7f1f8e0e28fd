"""A simulated step as Chrome trace-event JSON, for ui.perfetto.dev or chrome://tracing.

Processes are pipeline stages, threads are streams, every task is a complete event ("X") with its micro-batch and model
chunk, and the stage that peaks highest carries its memory by kind as a counter track. Times are whole nanoseconds,
written in microseconds with three decimals as the format asks (`ts` and `dur` are microseconds).

Source: "Trace Event Format", Chromium project document, event types M, X and C.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.files.writing import open_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from windtunnel.serving.results.serving_result import ServingResult
    from windtunnel.training.results.records import TraceEvents
    from windtunnel.training.results.training_result import TrainingResult

_MAX_COUNTERS = 20_000


def trace_events(result: TrainingResult) -> list[dict[str, Any]]:
    """Trace events in the order of the file: names, tasks by start, memory counters.

    Raises:
        ValueError: the result was simulated without a trace.
    """
    return list(_events(result))


def write(result: TrainingResult, path: str | Path) -> Path:
    """Write the trace; a name that ends in `.gz` is compressed (Perfetto opens both).

    Raises:
        ValueError: the result was simulated without a trace.
    """
    return written(result, trace_events(result), Path(path))


def written(result: TrainingResult | ServingResult, events: Iterable[dict[str, Any]], target: Path) -> Path:
    """Write events with what they are of, one a line, and return the path."""
    head = json.dumps({"scenario": result.scenario_name, "version": result.version, "input_hash": result.input_hash})
    lines = (json.dumps(event, separators=(",", ":")) for event in events)
    with open_text(target) as out:
        out.write('{"displayTimeUnit":"ms","otherData":' + head + ',"traceEvents":[\n')
        out.write(",\n".join(lines))
        out.write("\n]}\n")
    return target


def microseconds(seconds: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    """Seconds as microseconds, to the nanosecond; those beyond 146 years end there."""
    nanoseconds = np.rint(seconds * 1e9).clip(max=2.0**62).astype(np.int64)
    return [ns / 1000 for ns in nanoseconds.tolist()]


def _events(result: TrainingResult) -> Iterator[dict[str, Any]]:
    trace = result.trace
    if trace is None:
        raise ValueError("the result has no trace: simulate with trace=True")
    yield from _names(trace)
    order = np.lexsort((trace.stream, trace.stage, trace.start_s))
    start, end = microseconds(trace.start_s[order]), microseconds(trace.end_s[order])
    columns = (trace.stage, trace.stream, trace.tag, trace.micro_batch, trace.chunk)
    for begin, finish, stage, stream, tag, micro_batch, chunk in zip(
        start, end, *(column[order].tolist() for column in columns), strict=True
    ):
        args = {}
        if micro_batch >= 0:
            args["micro_batch"] = micro_batch
        if chunk >= 0:
            args["chunk"] = chunk
        yield {
            "ph": "X",
            "name": trace.tags[tag],
            "cat": trace.streams[stream],
            "pid": stage,
            "tid": stream,
            "ts": begin,
            "dur": round(finish - begin, 3),
            "args": args,
        }
    yield from _memory(result)


def _names(trace: TraceEvents) -> Iterator[dict[str, Any]]:
    for stage in np.unique(trace.stage).tolist():
        yield {"ph": "M", "name": "process_name", "pid": stage, "args": {"name": f"stage {stage}"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": stage, "args": {"sort_index": stage}}
        for stream in np.unique(trace.stream[trace.stage == stage]).tolist():
            name = trace.streams[stream]
            yield {"ph": "M", "name": "thread_name", "pid": stage, "tid": stream, "args": {"name": name}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": stage, "tid": stream, "args": {"sort_index": stream}}


def _memory(result: TrainingResult) -> Iterator[dict[str, Any]]:
    memory = result.memory
    n = len(memory.curve_time_s)
    if not n:
        return
    stride = -(-n // _MAX_COUNTERS)
    kept = np.unique(np.append(np.arange(0, n, stride), int(np.argmax(memory.curve_bytes))))
    kinds = memory.curve_by_kind or {"allocated": memory.curve_bytes}
    values = {kind: np.rint(curve[kept]).astype(np.int64).tolist() for kind, curve in kinds.items()}
    for row, ts in enumerate(microseconds(memory.curve_time_s[kept])):
        yield {
            "ph": "C",
            "name": "memory allocated (bytes)",
            "pid": memory.stage,
            "ts": ts,
            "args": {kind: column[row] for kind, column in values.items()},
        }
