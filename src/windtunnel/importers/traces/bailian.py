"""Alibaba Bailian (Qwen) traces: JSON lines with chat_id, parent_chat_id, timestamp (s), lengths and hash_ids.

Each line's input_length is the whole prompt; hashes are of blocks of 16 tokens; a parent is the turn before, −1 none.

Source: github.com/alibaba-edu/qwen-bailian-usagetraces-anon, README.
"""

from __future__ import annotations

import numpy as np

from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.hashes import blocks_of, hash_list
from windtunnel.importers.traces.order import by_arrival
from windtunnel.importers.traces.reading import Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace

BLOCK_SIZE = 16


def _detect(head: Head) -> bool:
    return {"chat_id", "input_length", "output_length"} <= head.record.keys()


def _read(source: Source) -> RequestTrace:
    times, inputs, outputs, session, lines = [], [], [], [], []
    hashes: list[list[object]] = []
    roots: dict[object, int] = {}
    failed = 0
    for line, data in source.records():
        parent = source.name(line, "parent_chat_id", data.get("parent_chat_id"))
        own = source.name(line, "chat_id", data.get("chat_id"))
        root = roots[parent] if parent in roots else len(roots)
        roots[own] = root
        tokens = source.count(line, "input_length", data.get("input_length"), 1)
        made = source.count(line, "output_length", data.get("output_length"))
        at = source.number(line, "timestamp", data.get("timestamp"))
        if made == 0:
            failed += 1
            continue
        times.append(at)
        inputs.append(tokens)
        outputs.append(made)
        session.append(root)
        lines.append(line)
        hashes.append(hash_list(source, line, data.get("hash_ids")))
    source.check()
    source.drop(failed, "without an answer: output_length 0")
    tokens_in = np.array(inputs, np.int64)
    blocks = blocks_of(source, hashes, tokens_in, lines, BLOCK_SIZE)
    source.check()
    arrival = source.seconds(np.array(times, np.float64), "s", "timestamp")
    groups = np.array(session, np.int64)
    return by_arrival(source, arrival, tokens_in, np.array(outputs, np.int64), session=groups, blocks=blocks)


TRACES.add("bailian", TraceFormat("Alibaba Bailian trace (JSON lines)", _detect, _read))
