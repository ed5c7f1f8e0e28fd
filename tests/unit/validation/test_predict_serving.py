"""Served requests against what rows measured, and the two pools of a split deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel.serving.event_loop.requests import Requests
from windtunnel.validation.predict.serving import serving_outcomes
from windtunnel.validation.predict.serving_run import ready, run
from windtunnel.validation.predict.validate import validate
from windtunnel.validation.rows.parsing.serving import read_serving
from windtunnel.validation.rows.parsing.serving_trace import recorded
from windtunnel.validation.rows.read_row import read
from windtunnel.validation.rows.serving_targets import Served, served_value, serving_unit

ROW = {
    "id": "serving-1",
    "kind": "serving",
    "set": "sample",
    "engine": "vllm",
    "engine_version": "0.12.0",
    "model": "meta-llama/Llama-3.1-8B",
    "hardware": "h100_sxm",
    "precision": "bf16",
    "config": {},
    "tp": 1,
    "pp": 1,
    "isl": 256,
    "osl": 32,
    "load": {"concurrency": 4},
    "metrics": {"ttft_mean_ms": 30.0, "tpot_mean_ms": 6.0, "ttft_p99_ms": 60.0, "average_power_W": 500.0},
}


def two_requests() -> Served:
    q = Requests(
        arrival_s=np.array([0.0, 1.0]),
        input_tokens=np.array([10, 10], np.int32),
        output_tokens=np.array([3, 1], np.int32),
    )
    q.first_token_s, q.finish_s = np.array([0.5, 1.5]), np.array([0.9, 1.5])
    q.state = np.array([4, 4], np.int32)
    return Served(requests=q, request_s=0.1, devices=2)


@pytest.mark.parametrize(
    ("metric", "value", "unit"),
    [
        ("ttft_mean_ms", 600.0, "ms"),
        ("tpot_mean_ms", 200.0, "ms"),
        ("tpot_per_output_token_ms", 100.0, "ms"),
        ("e2e_mean_ms", 800.0, "ms"),
        ("output_tok_s", 4 / 1.5, "tokens/s"),
        ("output_tok_s_per_gpu", 2 / 1.5, "tokens/s"),
        ("ttft_p50_ms", 600.0, "ms"),
        ("e2e_ms_median", 800.0, "ms"),
        ("rps", 2 / 1.5, "requests/s"),
    ],
)
def test_metrics_as_the_rows_define_them(metric: str, value: float, unit: str) -> None:
    assert served_value(metric, two_requests()) == pytest.approx(value)
    assert serving_unit(metric) == unit


def test_one_entry_a_metric_and_a_reason_without_one() -> None:
    found = {entry.metric: entry for entry in validate([ROW]).rows}
    assert set(found) == set(ROW["metrics"])  # type: ignore[call-overload]
    for name in ("ttft_mean_ms", "tpot_mean_ms", "ttft_p99_ms"):
        assert found[name].predicted is not None and 0.2 < found[name].predicted / found[name].measured < 5.0
    assert found["average_power_W"].predicted is None and found["average_power_W"].reason


def test_a_trace_that_is_not_there_is_a_reason(tmp_path: Path) -> None:
    row = {**ROW, "load": {"per_request_trace": True}, "config": {"trace": "nowhere.csv"}}
    assert "nowhere.csv" in validate([row]).rows[0].reason


def test_replays_keep_arrivals_and_leave_out_what_was_not_answered(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("arrival_s,input_tokens,output_tokens_measured\n5,100,7\n6,50,0\n8.5,30,2\n")
    q = recorded(path)
    np.testing.assert_allclose(q.arrival_s, [0.0, 3.5])
    assert list(q.output_tokens) == [7, 2]


def test_prompts_of_a_split_deployment_do_not_slow_answers() -> None:
    sizes = {"tp_size": 1, "pp_size": 1, "num_workers": 1}
    config = {"mode": "disagg", **{f"{r}_{k}": v for r in ("prefill", "decode") for k, v in sizes.items()}}
    changes = {"isl": 4096, "osl": 64, "load": {"concurrency": 16}}
    split, mixed = (read_serving({**ROW, **changes, "config": c}).scenario for c in (config, {}))
    assert split is not None and mixed is not None
    a, b = run(ready(split, Path())), run(ready(mixed, Path()))
    assert a.devices == 2 * b.devices
    tpot = [served_value("tpot_mean_ms", s) or 0.0 for s in (a, b)]
    assert tpot[0] < tpot[1]
    assert (a.requests.first_token_s <= a.requests.finish_s).all()


def test_a_whole_prompt_longer_than_the_budget_is_priced(tmp_path: Path) -> None:
    from windtunnel.serving.event_loop import run as loop
    from windtunnel.serving.event_loop.instance_limits import Limits

    table = 1e-3 + 1e-6 * np.arange(1 + 64 + 4)
    q = Requests(arrival_s=np.zeros(1), input_tokens=np.array([5000], np.int32), output_tokens=np.array([2], np.int32))
    loop.serve(q, table, Limits(budget=64, max_seqs=4, chunked=False), 1)
    assert q.first_token_s[0] == pytest.approx(1e-3 + 5000e-6)


def test_shares_of_a_boards_power_are_predicted_where_they_were_recorded(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "id": "serving-9",
        "kind": "serving",
        "set": "splitwise_perf_model",
        "engine": "not stated in the file",
        "model": "llama2-70b",
        "hardware": "a100-80gb",
        "tp": 4,
        "pp": 1,
        "ep": 1,
        "config": {},
        "isl": 512,
        "osl": 128,
        "load": {"batch": 1},
        "metrics": {"average_power_frac_median": 0.6, "peak_power_frac_median": 0.0},
    }
    case = read(row)
    mean, peak = serving_outcomes(case, tmp_path, {})
    assert mean.predicted is not None and 0.2 < mean.predicted < 1.0
    assert peak.predicted is None and "not recorded" in peak.reason
    row["metrics"] = {"peak_power_frac_median": 1.0}
    (most,) = serving_outcomes(read(row), tmp_path, {})
    assert most.predicted is not None and mean.predicted < most.predicted < 1.1  # prompts draw more than answers
