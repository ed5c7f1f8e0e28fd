"""Tables of requests, CSV or JSON lines, with a column each for prompt and answer tokens and perhaps one for arrivals.

Read by the names that simulators and this package's own `serve --requests` give their columns: Vidur (arrived_at,
num_prefill_tokens, num_decode_tokens), splitwise-sim (arrival_timestamp, prompt_size, token_size), LLMServingSim
(input_toks, output_toks, arrival_time_ns).

Source: the readers of those projects; names with a unit speak for themselves.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.csv_table import Table
from windtunnel.importers.traces.order import by_arrival
from windtunnel.importers.traces.reading import Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace

_INPUTS = ("input_tokens", "num_prefill_tokens", "prompt_size", "prompt_tokens", "input_toks")
_OUTPUTS = (
    "output_tokens",
    "num_decode_tokens",
    "token_size",
    "completion_tokens",
    "output_toks",
    "output_tokens_measured",
)
_ARRIVALS: dict[str, tuple[Literal["s", "ms"] | None, float]] = {
    "arrival_s": ("s", 1.0),
    "arrived_at": ("s", 1.0),
    "arrival_timestamp": ("s", 1.0),
    "arrival_time_s": ("s", 1.0),
    "arrival_ms": ("ms", 1.0),
    "arrival_time_ms": ("ms", 1.0),
    "arrival_time_ns": ("s", 1e-9),
    "arrival_time": (None, 1.0),
    "timestamp": (None, 1.0),
}
"""Column → unit of its numbers (None: it has to be said) and what they are first multiplied by."""
_MEASURED = ("ttft_s", "e2e_s")


def _names(head: Head) -> tuple[str | None, str | None, str | None]:
    """Columns of prompts, answers and arrivals."""
    columns = head.record.keys() or head.columns
    first = (next((name for name in names if name in columns), None) for names in (_INPUTS, _OUTPUTS, _ARRIVALS))
    inputs, outputs, arrivals = first
    return inputs, outputs, arrivals


def _detect(head: Head) -> bool:
    inputs, outputs, _ = _names(head)
    return inputs is not None and outputs is not None


def _read(source: Source) -> RequestTrace:
    with source.open() as stream:
        head = Head(stream.read(1 << 16))
    inputs, outputs, arrivals = _names(head)
    for wanted, name, known in (("input_tokens", inputs, _INPUTS), ("output_tokens", outputs, _OUTPUTS)):
        if name is None:
            source.bad(1, wanted, f"is missing: one of the columns {', '.join(known)} is required")
    source.check()
    assert inputs is not None and outputs is not None
    read = _json_lines if head.record else _csv
    given, made, times, measured = read(source, inputs, outputs, arrivals)
    if times is not None and arrivals is not None:
        unit, factor = _ARRIVALS[arrivals]
        # whole nanoseconds since 1970 are beyond float64: only what is after the first counts
        since = (times - times.min(initial=np.inf)) * factor if len(times) else times
        times = source.seconds(since, unit, arrivals, sure=unit is not None)
    source.check()
    served = (given > 0) & (made > 0)
    source.drop(int(len(served) - served.sum()), "without prompt or answer tokens")
    kept = {name: values[served] for name, values in measured.items()}
    if times is not None:
        return by_arrival(source, times[served], given[served], made[served], **kept)
    return RequestTrace(
        file=str(source.path),
        format=source.format,
        input_tokens=given[served].astype(np.int32),
        output_tokens=made[served].astype(np.int32),
        assumed=tuple(source.assumed),
        left_out=tuple(source.left_out),
        **kept,
    )


_Read = tuple[Ints, Ints, Floats | None, dict[str, Any]]


def _csv(source: Source, inputs: str, outputs: str, arrivals: str | None) -> _Read:
    table = Table(source, (inputs, outputs) + ((arrivals,) if arrivals else ()), _MEASURED)
    times = table.numbers(arrivals) if arrivals else None
    measured = {name: table.numbers(name, needed=False) for name in _MEASURED if name in table}
    return table.counts(inputs), table.counts(outputs), times, measured


def _json_lines(source: Source, inputs: str, outputs: str, arrivals: str | None) -> _Read:
    given, made, times = [], [], []
    for line, data in source.records():
        given.append(source.count(line, inputs, data.get(inputs)))
        made.append(source.count(line, outputs, data.get(outputs)))
        times.append(source.number(line, arrivals, data.get(arrivals)) if arrivals else 0.0)
    found = np.array(times, np.float64) if arrivals else None
    return np.array(given, np.int64), np.array(made, np.int64), found, {}


TRACES.add("table", TraceFormat("table of requests (CSV or JSON lines)", _detect, _read))
