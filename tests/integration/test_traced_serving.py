"""Traces through the whole of `serve`: each request of the file is served, sent as the file or the scenario says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel.errors import BadInput
from windtunnel.serving.simulate import simulate_serving

pytestmark = pytest.mark.slow

BENCH = {
    "request_rate": "inf",
    "max_concurrency": 2,
    "total_input_tokens": 1500,
    "request_throughput": 1.0,
    "input_lens": [100, 200, 300, 400, 500],
    "output_lens": [10, 20, 30, 0, 50],
}
MOONCAKE = [{"timestamp": 500 * i, "input_length": 1000, "output_length": 8, "hash_ids": [0, i]} for i in range(12)]


def served(folder: Path, **traffic: Any) -> Any:
    scenario = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
        "serving": {
            "traffic": {name: str(folder / value) if name == "trace" else value for name, value in traffic.items()}
        },
    }
    return simulate_serving(scenario)


def test_a_benchmark_without_times_is_sent_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(BENCH), encoding="utf-8")
    result = served(tmp_path, trace="b.json")
    assert (result.requests, result.completed) == (4, 4)
    assert any("says so" in row["why"] for row in result.assumed)
    alone = served(tmp_path, trace="b.json", concurrency=1)
    assert alone.duration_s > result.duration_s


def test_a_trace_is_replayed_at_its_times(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(one) + "\n" for one in MOONCAKE), encoding="utf-8")
    result, twice = (served(tmp_path, trace="m.jsonl", time_scale=scale) for scale in (1, 2))
    assert result.completed == twice.completed == 12
    assert 5.5 < result.duration_s < 6.5 and 2.75 < twice.duration_s < 3.5


def test_conversations_wait_for_their_answers(tmp_path: Path) -> None:
    lines = [{"session_id": "a", "timestamp": 0, "input_length": 100, "output_length": 5}]
    lines += [{"session_id": "a", "delay": 1000, "input_length": 10, "output_length": 5}] * 3
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    result = served(tmp_path, trace="s.jsonl")
    assert result.completed == 4 and 3 < result.duration_s < 3.8


def test_settings_beside_a_trace_are_refused_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(one) + "\n" for one in MOONCAKE), encoding="utf-8")
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "model: meta-llama/Llama-3.1-8B\ncluster: {device: h100-sxm-80gb, nodes: 1, devices_per_node: 1}\n"
        "serving:\n  traffic:\n    trace: m.jsonl\n    num_requests: 13\n    correlation: 0.5\n",
        encoding="utf-8",
    )
    with pytest.raises(BadInput) as caught:
        simulate_serving(scenario)
    assert "num_requests = 13: must be at most 12" in str(caught.value) and "s.yaml:6)" in str(caught.value)
    assert "correlation = 0.5: is the trace's own" in str(caught.value) and "s.yaml:7)" in str(caught.value)
