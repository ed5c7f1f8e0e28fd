"""Damaged traces: whatever a file holds, it is read or refused in words."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from request_traces import BURSTGPT_2, EXPORT, FILES, INPUTS

from windtunnel.errors import BadInput
from windtunnel.importers.traces import Options, PrefixBlocks, read_trace
from windtunnel.serving.traffic import generate
from windtunnel.serving.traffic.fit_distributions import fit
from windtunnel.serving.traffic.trace_to_yaml import text as section
from windtunnel.specs.traffic import TrafficSpec

pytestmark = pytest.mark.property

TEXTS = [(format, text) for format, (_, text) in FILES.items()]
TEXTS += [("burstgpt", BURSTGPT_2), ("aiperf", json.dumps(EXPORT)), ("aiperf", json.dumps(INPUTS))]
ODD = [None, True, -1, 0, 1.5, 1e400, float("nan"), 2**70, "", "x", [], {}, [1], {"value": "x"}, "2023-01-01", [[]]]


def damaged(data: Any, draw: random.Random) -> Any:
    """JSON with some values replaced, left out or doubled."""
    if draw.random() < 0.06:
        return draw.choice(ODD)
    if isinstance(data, dict):
        return {k: damaged(v, draw) for k, v in data.items() if draw.random() > 0.03}
    if isinstance(data, list):
        kept = [damaged(v, draw) for v in data if draw.random() > 0.03]
        return kept + kept[:1] if draw.random() < 0.05 else kept
    return data


def spoiled(text: str, draw: random.Random) -> str:
    """Text with cells, characters or ends changed."""
    if text[0] in "[{":
        try:
            return json.dumps(damaged(json.loads(text), draw))
        except ValueError:
            lines = [json.loads(line) for line in text.splitlines()]
            return "".join(json.dumps(damaged(line, draw)) + "\n" for line in lines)
    rows = [line.split(",") for line in text.splitlines()]
    for row in rows[1:]:
        for i in range(len(row)):
            if draw.random() < 0.08:
                row[i] = str(draw.choice(ODD))
    return "\n".join(",".join(row) for row in rows) + "\n"


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(TEXTS), st.integers(0, 10**9), st.booleans())
def test_damaged_files_are_read_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, one: tuple[str, str], seed: int, cut: bool
) -> None:
    format, text = one
    draw = random.Random(seed)
    text = spoiled(text, draw)
    text = text[: draw.randrange(len(text) + 1)] if cut and draw.random() < 0.3 else text
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_text(text, encoding="utf-8")
    options = Options(time_unit=draw.choice([None, "s", "ms"]), block_size=draw.choice([None, 16, 512]))
    try:
        trace = read_trace(path, draw.choice([format, "auto"]), options)
    except BadInput as error:
        assert str(error) and len(error.problems) <= 22
        return
    assert len(trace) and (trace.input_tokens >= 1).all() and (trace.output_tokens >= 0).all()
    assert trace.arrival_s is None or np.nanmin(trace.arrival_s) >= 0
    assert section(trace, fit(trace), "damaged", options).startswith("# damaged")


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=12))
def test_known_blocks_are_those_of_a_cache_that_forgets_nothing(rows: list[list[int]]) -> None:
    tree: dict[tuple[int, ...], int] = {}
    ids = [[tree.setdefault(tuple(row[: i + 1]), len(tree)) for i in range(len(row))] for row in rows]
    start = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    blocks = PrefixBlocks(start, np.array([one for row in ids for one in row], np.int64), 4)
    seen: set[int] = set()
    for row, known in zip(ids, blocks.known().tolist(), strict=True):
        assert known == next((i for i, one in enumerate(row) if one not in seen), len(row))
        seen.update(row)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 9000), st.integers(1, 900)), min_size=1, max_size=60),
    st.floats(0.1, 10),
)
def test_replay_keeps_every_request_and_its_time(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]], scale: float
) -> None:
    path = tmp_path_factory.getbasetemp() / "replayed.jsonl"
    lines = [{"timestamp": t, "input_length": i, "output_length": o} for t, i, o in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    spec = TrafficSpec(trace="replayed.jsonl", trace_time_unit="ms", time_scale=scale)
    requests = generate(spec, folder=Path(path).parent).requests
    first = min(t for t, _, _ in rows)
    expected = sorted(((t - first) / 1000 / scale, i, o) for t, i, o in rows)
    found = sorted(zip(requests.arrival_s, requests.input_tokens, requests.output_tokens, strict=True))
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-9, atol=1e-9)
    assert (np.diff(requests.arrival_s) >= 0).all()
