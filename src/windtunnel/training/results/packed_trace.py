"""The simulated step packed for the canvas of a page: sorted, delta-coded columns, deflated."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.training.results.colours import colour

if TYPE_CHECKING:
    from windtunnel.arrays import Ints, Mask
    from windtunnel.training.results.records import TraceEvents
    from windtunnel.training.results.training_result import TrainingResult

MAX_EVENTS = 400_000
MAX_STAGES = 64


def pack(result: TrainingResult) -> tuple[dict[str, Any], str]:
    """Columns for `assets/timeline.js`.

    Lanes are (stage, stream), stages in order; rows are sorted by lane and start. Times are whole ticks of 2⁻³⁰ of the
    span; the first column holds the distance to the start before it in the same lane.

    Returns:
        The description (spans, names, colours, lanes as [stage, stream, first row, end row]) and the base64 text.

    Raises:
        ValueError: the result was simulated without a trace.
    """
    trace = result.trace
    if trace is None:
        raise ValueError("the result has no trace: simulate with trace=True")
    span = max(float(trace.end_s.max(initial=0.0)), result.step_time_s)
    tick = span / 2**30
    real = trace.end_s > trace.start_s
    order = _drawn_events(trace, real)
    start = np.rint(trace.start_s[order] / tick).astype(np.int64)
    length = np.rint(trace.end_s[order] / tick).astype(np.int64) - start
    stage, stream = trace.stage[order], trace.stream[order]
    new_lane = np.ones(len(order), bool)
    new_lane[1:] = (np.diff(stage) != 0) | (np.diff(stream) != 0)
    gap = np.diff(start, prepend=0)
    gap[new_lane] = start[new_lane]
    first = np.flatnonzero(new_lane)
    ends = [*first[1:].tolist(), len(order)]
    columns = (
        gap.astype("<i4"),
        length.astype("<i4"),
        trace.micro_batch[order].astype("<i4"),
        trace.tag[order].astype("<i2"),
        trace.chunk[order].astype("<i2"),
    )
    packed = zlib.compress(b"".join(column.tobytes() for column in columns), 9)
    meta = {
        "n": len(order),
        "span_s": span,
        "tick_s": tick,
        "streams": list(trace.streams),
        "tags": list(trace.tags),
        "colours": [colour(tag) for tag in trace.tags],
        "chunks": int(trace.chunk.max(initial=0)) + 1,
        "first_view_s": [0.0, _first_view_s(trace, real, span)],
        "lanes": [[int(stage[a]), int(stream[a]), int(a), int(b)] for a, b in zip(first.tolist(), ends, strict=True)],
        "dropped": int(real.sum()) - len(order),
    }
    return meta, base64.b64encode(packed).decode("ascii")


def _drawn_events(trace: TraceEvents, real: Mask) -> Ints:
    """Rows of the trace to draw, by stage, stream and start: of very many, the longest."""
    shown = np.flatnonzero(_shown_stages(trace.stage) & real)
    if len(shown) > MAX_EVENTS:
        longest = np.argsort(-(trace.end_s[shown] - trace.start_s[shown]), kind="stable")[:MAX_EVENTS]
        shown = np.sort(shown[longest])
    return shown[np.lexsort((trace.start_s[shown], trace.stream[shown], trace.stage[shown]))]


def _first_view_s(trace: TraceEvents, real: Mask, span: float) -> float:
    """Seconds that the first view shows: enough compute events of typical length to see the schedule."""
    parts = (int(trace.chunk.max(initial=0)) + 1) * len(np.unique(trace.stage))
    compute = real & (trace.stream == 0)
    typical_s = float(np.median(trace.end_s[compute] - trace.start_s[compute])) if compute.any() else span
    return min(span, max(max(90.0, 2.2 * parts) * typical_s, 0.02 * span))


def _shown_stages(stage: np.ndarray[Any, np.dtype[np.int32]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """All stages up to 64; beyond, 64 of them evenly spread, the first and the last included."""
    stages = np.unique(stage)
    if len(stages) <= MAX_STAGES:
        return np.ones(len(stage), bool)
    kept = stages[np.unique(np.linspace(0, len(stages) - 1, MAX_STAGES).astype(int))]
    return np.isin(stage, kept)
