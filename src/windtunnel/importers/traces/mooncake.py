"""Mooncake traces: JSON lines with timestamp (ms), input_length, output_length and hash_ids of 512-token blocks.

aiperf and others write the same lines; theirs may lack hash_ids, and may have session_id with delay (ms): a turn is
then sent so long after the one before it ended, and input_length is what the turn adds.

Source: Mooncake (Qin et al., FAST 2025), github.com/kvcache-ai/Mooncake, FAST25-release; sessions: aiperf's
documentation of trace replay.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.hashes import blocks_of, hash_list
from windtunnel.importers.traces.order import by_arrival
from windtunnel.importers.traces.reading import UNITS_S, Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace

BLOCK_SIZE = 512


def _detect(head: Head) -> bool:
    return {"input_length", "output_length"} <= head.record.keys() and "chat_id" not in head.record


def _read(source: Source) -> RequestTrace:
    rows: list[tuple[int, dict[str, Any]]] = []
    hashes: list[list[Any]] = []
    lengths: list[tuple[int, int]] = []
    failed = 0
    for line, data in source.records():
        tokens = source.count(line, "input_length", data.get("input_length"), 1)
        made = source.count(line, "output_length", data.get("output_length"))
        if made == 0:
            failed += 1
            continue
        rows.append((line, data))
        hashes.append(hash_list(source, line, data.get("hash_ids")))
        lengths.append((tokens, made))
    source.drop(failed, "without an answer: output_length 0")
    inputs, outputs = np.array(lengths, np.int64).reshape(-1, 2).T
    if any("session_id" in data or "delay" in data for _, data in rows):
        return _sessions(source, rows, inputs, outputs)
    times = np.array([source.number(line, "timestamp", data.get("timestamp")) for line, data in rows])
    source.check()
    blocks = blocks_of(source, hashes, inputs, [line for line, _ in rows], BLOCK_SIZE)
    source.check()
    return by_arrival(source, source.seconds(times, "ms", "timestamp"), inputs, outputs, blocks=blocks)


def _sessions(source: Source, rows: list[tuple[int, dict[str, Any]]], inputs: Ints, outputs: Ints) -> RequestTrace:
    """Turns by session, in the file's order; hashes of a turn's own tokens say nothing about its whole prompt."""
    names: dict[Any, int] = {}
    said = [source.name(line, "session_id", data.get("session_id")) for line, data in rows]
    alone = ((("alone", line) if name is None else name) for name, (line, _) in zip(said, rows, strict=True))
    session = np.array([names.setdefault(name, len(names)) for name in alone], np.int64)
    order = np.argsort(session, kind="stable")
    turn = np.zeros(len(rows), np.int64)
    times, delays = np.full(len(rows), np.nan), np.zeros(len(rows))
    for place, i in enumerate(order):
        line, data = rows[i]
        if place and session[order[place - 1]] == session[i]:
            turn[i] = turn[order[place - 1]] + 1
        if data.get("timestamp") is not None:
            times[i] = source.number(line, "timestamp", data["timestamp"])
        elif turn[i] == 0:
            times[i] = 0.0
        if data.get("delay") is not None:
            delays[i] = source.number(line, "delay", data["delay"])
            if delays[i] < 0:
                source.bad(line, "delay", "must not be negative", data["delay"])
    source.check()
    known = ~np.isnan(times)
    timed = any("timestamp" in data for _, data in rows)
    arrival = times.copy()
    if timed:
        arrival[known] = source.seconds(times[known], "ms", "timestamp")
    unit = UNITS_S[source.options.time_unit or "ms"]
    source.assumed.append(("input_length", "adds to the turns before", "lines have session_id, as in aiperf's replays"))
    return RequestTrace(
        file=str(source.path),
        format=source.format,
        input_tokens=inputs[order].astype(np.int32),
        output_tokens=outputs[order].astype(np.int32),
        arrival_s=arrival[order] if timed else None,
        session=session[order],
        turn=turn[order],
        delay_s=delays[order] * unit,
        assumed=tuple(source.assumed),
        left_out=tuple(source.left_out),
    )


TRACES.add("mooncake", TraceFormat("Mooncake trace (JSON lines)", _detect, _read))
