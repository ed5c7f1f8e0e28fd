"""`serve --trace`: tracks of iterations, counters and requests, in a file of bounded size."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from windtunnel.exporters import perfetto_serving
from windtunnel.exporters.perfetto_serving import trace_events, write
from windtunnel.serving import simulate

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "serving": {
        "engine": "vllm",
        "engine_version": "0.10.0",
        "pools": [{"replicas": 2, "plan": {"tp": 1}}],
        "traffic": {"rate_per_s": 20, "num_requests": 300, "input_tokens": 700, "output_tokens": 60},
    },
}


@pytest.fixture(scope="module")
def result() -> Any:
    return simulate.simulate_serving(SCENARIO)


def test_iterations_of_a_track_follow_one_another(result: Any) -> None:
    events = trace_events(result)
    tracks = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            tracks[e["pid"], e["tid"]].append((e["ts"], e["dur"], e["args"]["steps"] * e["args"]["decoding"]))
    assert set(tracks) == {(0, 0), (1, 0)}
    for slices in tracks.values():
        assert all(a + d <= b + 0.002 for (a, d, _), (b, _, _) in pairwise(slices))
    decoded = sum(n for slices in tracks.values() for *_, n in slices)
    assert decoded == result.record.requests.output_tokens.sum() - 300


def test_every_request_has_its_three_parts(result: Any) -> None:
    events = [e for e in trace_events(result) if e.get("cat") == "request"]
    depth: Counter[int] = Counter()
    for e in events:
        depth[e["id"]] += 1 if e["ph"] == "b" else -1
        assert depth[e["id"]] >= 0
    assert not any(depth.values()) and len(depth) == 300
    spans = {name: [e["ts"] for e in events if e["name"] == name] for name in ("prompt", "answer")}
    assert len(spans["prompt"]) == len(spans["answer"]) == 600
    assert {e["args"]["waiting"] for e in trace_events(result) if e["ph"] == "C" and e["name"] == "requests"} >= {0}


def test_long_runs_are_cut_around_the_slowest_first_token(result: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto_serving, "MOST_SLICES", 50)
    monkeypatch.setattr(perfetto_serving, "MOST_REQUESTS", 3)
    events = trace_events(result)
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == 50
    q = result.record.requests
    worst = q.arrival_s[(q.first_token_s - q.arrival_s).argmax()] * 1e6
    assert slices[0]["ts"] <= worst <= max(e["ts"] + e["dur"] for e in slices)
    assert len({e["id"] for e in events if e.get("cat") == "request"}) <= 3
    whole = [e for e in events if e["ph"] == "C" and e["pid"] == 1_000_000 and e["name"] == "requests"]
    assert len(whole) == 2000 and max(e["args"]["running"] for e in whole) > 1


def test_the_file_is_json_and_may_be_compressed(result: Any, tmp_path: Path) -> None:
    plain = json.loads(write(result, tmp_path / "t.json").read_text(encoding="utf-8"))
    with gzip.open(write(result, tmp_path / "t.json.gz"), "rt", encoding="utf-8") as packed:
        assert json.load(packed) == plain
    assert plain["otherData"]["input_hash"] == result.input_hash
