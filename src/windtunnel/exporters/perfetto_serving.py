"""A serving run as a trace in Chrome's JSON format, which <https://ui.perfetto.dev> opens.

One process an instance: a track of iterations (a run of decode steps is one slice), counters of requests running and
waiting and of the cache in use, and one asynchronous track a request with its queue time, its prompt and its answer.
A long run is cut to a window around its slowest first token; counters then say what the whole run did.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.exporters.perfetto import microseconds, written
from windtunnel.serving.results.run_record import time_series

if TYPE_CHECKING:
    from windtunnel.serving.results.run_record import Record
    from windtunnel.serving.results.serving_result import ServingResult

MOST_SLICES, MOST_REQUESTS, COUNTER_POINTS = 30_000, 2_000, 2_000
_ITERATIONS = 0
_RUN = 1_000_000
"""Process of the counters of a whole run that is cut."""


def trace_events(result: ServingResult) -> list[dict[str, Any]]:
    """Trace events in the order of the file: names, iterations by start, counters, requests.

    Raises:
        ValueError: the result has no record of its run.
    """
    if result.record is None:
        raise ValueError("a stored result has no trace: run its scenario again")
    return list(_events(result.record))


def write(result: ServingResult, path: str | Path) -> Path:
    """Write the trace; a name that ends in `.gz` is compressed (Perfetto opens both)."""
    return written(result, trace_events(result), Path(path))


def window(record: Record) -> tuple[Ints, float, float]:
    """Events that a trace shows, by start, and the seconds that they span.

    All where they are few; else `MOST_SLICES` around the request that waited longest for its first token.
    """
    start = record.events["start"]
    order = np.argsort(start, kind="stable")
    if len(order) > MOST_SLICES:
        q = record.requests
        wait = q.first_token_s - q.arrival_s
        worst = float(q.arrival_s[int(np.nanargmax(wait))]) if np.isfinite(wait).any() else 0.0
        at = int(np.searchsorted(start[order], worst))
        first = min(max(at - MOST_SLICES // 2, 0), len(order) - MOST_SLICES)
        order = order[first : first + MOST_SLICES]
    if not len(order):
        return order, 0.0, 0.0
    shown = record.events[order]
    return order, float(shown["start"][0]), float((shown["start"] + shown["seconds"]).max())


def _lanes(record: Record) -> tuple[list[tuple[int, int]], list[int]]:
    """(instance, batch of it) of each lane, and the blocks of each instance's lanes."""
    lanes: list[tuple[int, int]] = []
    blocks: list[int] = []
    for part in record.pools:
        each = max(part.lanes_of_instance, 1)
        lanes += [(len(blocks) + lane // each, lane % each) for lane in range(part.lanes)]
        blocks += [part.blocks] * part.instances
    return lanes, blocks


def _events(record: Record) -> Iterator[dict[str, Any]]:
    order, begin_s, end_s = window(record)
    lanes, blocks = _lanes(record)
    names = [f"{part.name} instance {i}".strip() for part in record.parts for i in range(part.instances)]
    for i in range(len(blocks)):
        name = names[i] if names else f"instance {i}"
        yield {"ph": "M", "name": "process_name", "pid": i, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": i, "args": {"sort_index": i}}
    for i, lane in lanes:
        name = "iterations" if lanes.count((i, 1)) == 0 else f"iterations, batch {lane}"
        name += f" (one event in {record.every})" if record.every > 1 else ""
        yield {"ph": "M", "name": "thread_name", "pid": i, "tid": _ITERATIONS + lane, "args": {"name": name}}
    yield from _iterations(record, order, lanes)
    yield from _counters(record, order, lanes, blocks)
    if len(order) < len(record.events) or record.every > 1:
        yield from _whole_run(record)
    yield from _requests(record, begin_s, end_s, lanes)


def _iterations(record: Record, order: Ints, lanes: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    shown = record.events[order]
    begin, end = microseconds(shown["start"]), microseconds(shown["start"] + shown["seconds"])
    columns = [shown[name].astype(np.int64).tolist() for name in ("steps", "decoding", "prompts", "waiting", "used")]
    for a, b, lane, steps, decoding, prompts, waiting, used in zip(
        begin, end, shown["instance"].tolist(), *columns, strict=True
    ):
        if prompts:
            name = f"{prompts} prompt{'s' * (prompts > 1)}" + (f" + {decoding} decode" if decoding else "")
        else:
            name = f"decode {decoding}" + (f" × {steps} steps" if steps > 1 else "")
        yield {
            "ph": "X",
            "name": name,
            "cat": "prompts" if prompts else "decode",
            "pid": lanes[lane][0],
            "tid": _ITERATIONS + lanes[lane][1],
            "ts": a,
            "dur": round(b - a, 3),
            "args": {"steps": steps, "decoding": decoding, "prompts": prompts, "waiting": waiting, "kv_blocks": used},
        }


def _counters(record: Record, order: Ints, lanes: list[tuple[int, int]], blocks: list[int]) -> Iterator[dict[str, Any]]:
    """Running, waiting and cache of each instance where its iterations begin."""
    most = max(COUNTER_POINTS * 10 // len(blocks), 50)
    instance = np.array([i for i, _ in lanes])[record.events["instance"][order]]
    for i, size in enumerate(blocks):
        own = order[instance == i]
        own = own[:: -(-len(own) // most) or 1]
        rows = record.events[own]
        running = (rows["decoding"] + rows["prompts"]).astype(np.int64).tolist()
        share = np.round(100.0 * rows["used"] / size, 3).tolist()
        waiting = rows["waiting"].astype(np.int64).tolist()
        for ts, a, b, c in zip(microseconds(rows["start"]), running, waiting, share, strict=True):
            yield {"ph": "C", "name": "requests", "pid": i, "ts": ts, "args": {"running": a, "waiting": b}}
            yield {"ph": "C", "name": "cache in use (%)", "pid": i, "ts": ts, "args": {"cache": c}}


def _whole_run(record: Record) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": _RUN, "args": {"name": "whole run, all instances"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": _RUN, "args": {"sort_index": -1}}
    series = time_series(record, COUNTER_POINTS)
    values = zip(
        microseconds(series.edges_s[:-1]),
        series.running.round(3).tolist(),
        series.waiting.round(3).tolist(),
        (100.0 * series.kv_usage).round(3).tolist(),
        strict=True,
    )
    for ts, running, waiting, share in values:
        yield {"ph": "C", "name": "requests", "pid": _RUN, "ts": ts, "args": {"running": running, "waiting": waiting}}
        yield {"ph": "C", "name": "cache in use (%)", "pid": _RUN, "ts": ts, "args": {"cache": share}}


def _requests(record: Record, begin_s: float, end_s: float, lanes: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Asynchronous slices of requests inside the window: all, or those slowest to a first token."""
    q = record.requests
    ran = np.isfinite(q.finish_s) & np.isfinite(q.first_token_s) & np.isfinite(q.scheduled_s)
    rows = np.flatnonzero(ran & (q.arrival_s >= begin_s) & (q.finish_s <= end_s))
    if len(rows) > MOST_REQUESTS:
        wait = q.first_token_s[rows] - q.arrival_s[rows]
        rows = np.sort(rows[np.argpartition(wait, -MOST_REQUESTS)[-MOST_REQUESTS:]])
    handed = q.answered_by[rows] >= 0
    computed = np.where(handed, q.prompt_end_s[rows], q.first_token_s[rows])
    moved = np.where(handed, q.moved_s[rows], computed)
    times = [microseconds(t) for t in (q.arrival_s[rows], q.scheduled_s[rows], computed, moved, q.finish_s[rows])]
    for k, i in enumerate(rows.tolist()):
        own = {"cat": "request", "id": i, "pid": lanes[int(q.instance[i])][0], "tid": 100}
        arrival, scheduled, first, there, finish = (column[k] for column in times)
        args = {
            "prompt_tokens": int(q.input_tokens[i]),
            "output_tokens": int(q.output_tokens[i]),
            "cached_tokens": int(q.cached_tokens[i]),
            "preemptions": int(q.preemptions[i]),
        }
        yield {"ph": "b", "name": f"request {i}", "ts": arrival, "args": args, **own}
        for name, a, b in (
            ("queued", arrival, scheduled),
            ("prompt", scheduled, first),
            ("cache moves", first, there),
            ("answer", there, finish),
        ):
            if b > a:
                yield {"ph": "b", "name": name, "ts": a, "args": {}, **own}
                yield {"ph": "e", "name": name, "ts": b, "args": {}, **own}
        yield {"ph": "e", "name": f"request {i}", "ts": finish, "args": {}, **own}
