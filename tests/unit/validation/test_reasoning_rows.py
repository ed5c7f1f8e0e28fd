"""Rows of reasoning, post-training and diffusion: one entry a number, predictions from the stated part alone."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest
from reasoning_rows import rows

from windtunnel.population.beta import Beta
from windtunnel.population.fit_tables import SPOILED
from windtunnel.population.pass_at_k import all_of_k, pass_at_k
from windtunnel.validation.predict.report import RowOutcome
from windtunnel.validation.predict.validate import validate
from windtunnel.validation.rows.read_row import row_kind
from windtunnel.validation.rows.row_files import shipped_reasoning_rows

LAW, AGENT = Beta(0.4, 1.1), Beta(0.4, 1.1, 1 - SPOILED)


def successes() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    correct = rng.binomial(1000, rng.beta(0.4, 1.1, 60))
    return {"kind": "problem_successes", "task": "math", "samples_per_problem": 1000, "correct": correct.tolist()}


MADE_UP: list[dict[str, Any]] = [
    successes(),
    {"kind": "pass_at_k", "task": "t-164", "percent": {str(k): 100 * float(pass_at_k(LAW, k)) for k in (1, 8, 64)}},
    {"kind": "all_of_k", "task": "t", "tasks": 115, "fraction": {str(k): float(all_of_k(AGENT, k)) for k in (1, 2, 4)}},
    {"kind": "majority", "task": "aime24 (30)", "percent": {"pass@1": 30.0, "maj@64": 50.0}},
    {"kind": "two_attempts", "task": "polyglot-225", "cases": 225, "pass_1_percent": 20.0, "pass_2_percent": 50.0},
    {"kind": "verifier_selection", "task": "m", "percent": {"pass@1": 42.0, "maj@16": 50.0, "my-orm@16": 51.0}},
    {
        "kind": "parallel_threads",
        "task": "m",
        "sequential": {"accuracy": 78.0, "token_latency": 900.0},
        "threaded": {"accuracy": 77.0, "token_latency": 800.0},
    },
    {
        "kind": "early_stop",
        "task": "b (30)",
        "device": "a100-80gb",
        "baseline": {"accuracy": 90.0},
        "online": {"accuracy": 91.0, "generation_s": 4.0},
    },
    {"kind": "pass_at_k", "task": "humaneval-164", "samples": 200, "percent": {"1": 20.0, "10": 35.0, "100": 55.0}},
    {"kind": "pass_at_k", "task": "math500", "percent": {"1": 40.0, "256": 90.0}},
    {"kind": "single_attempt", "percent": {"gsm8k": 80.0, "aime24_pass1_greedy": 20.0, "aime24_mean32": 14.0}},
    {"kind": "agent_cost", "task": "issues (500)", "total_usd": 2300, "usd_per_issue": 4.6, "resolved_percent": 57.4},
    {
        "kind": "agent_trace",
        "name": "t",
        "stages": {"a": {"calls": 3, "per_query": 1.5, "input_mean": 100, "output_mean": 10}},
        "traces": [[["a", 90, 8], ["a", 110, 12]], [["a", 100, 10]]],
        "calls_per_query": 1.5,
        "input_tokens_per_query": 150.0,
        "output_tokens_per_query": 15.0,
    },
    {
        "kind": "agent_trace_statistics",
        "task": "agents",
        "sessions": 100,
        "steps": 8000,
        "input_tokens": 1e9,
        "cached_input_tokens": 9.6e8,
    },
]
FIXED = {
    "pass@1", "pass@8", "pass@10", "pass^1", "pass^2", "pass_1_percent", "sequential.accuracy", "aime24_pass1_greedy",
    "sequential.token_latency", "baseline.accuracy", "total_usd", "steps", "input_tokens", "sessions",
    "threaded.token_latency",
}  # fmt: skip
"""What predictions start from; everything else is judged."""


def by_metric(row: dict[str, Any]) -> dict[str, RowOutcome]:
    return {o.metric: o for o in validate([row]).rows}


@pytest.mark.parametrize("row", MADE_UP, ids=lambda r: r["kind"])
def test_every_number_has_an_entry_and_every_prediction_a_band(row):
    found = by_metric(row)
    assert all(o.row_kind == row["kind"] == row_kind(row) for o in found.values())
    predicted = [o for o in found.values() if o.predicted is not None]
    assert predicted
    for o in found.values():
        if o.predicted is None:
            assert o.reason and o.interval is None and o.error is None
        else:
            assert o.interval is not None and o.interval["level"] == 0.8
            assert o.interval["low"] <= o.predicted <= o.interval["high"]
            assert o.grade in ("fitted", "assumed", "analytic") and o.interval["basis"]


@pytest.mark.parametrize("row", MADE_UP[1:], ids=lambda r: r["kind"])
def test_predictions_do_not_see_what_they_are_judged_by(row):
    def shuffled(value: Any, path: str = "") -> Any:
        name = {"percent": "", "fraction": ""}.get(path, path)
        if isinstance(value, dict):
            return {k: shuffled(v, f"{name}.{k}" if name else str(k)) for k, v in value.items()}
        if isinstance(value, list):
            return value
        label = path if not path.isdigit() else ("pass@" if row["kind"] == "pass_at_k" else "pass^") + path
        judged = isinstance(value, float) and label not in FIXED
        return value * 0.37 if judged else value

    moved = shuffled(copy.deepcopy(row)) | {"id": "another", "source": "elsewhere", "note": "changed"}
    before, after = by_metric(row), by_metric(moved)
    assert {m: o.predicted for m, o in before.items()} == {m: o.predicted for m, o in after.items()}
    assert any(before[m].measured != after[m].measured for m in before)


def test_rows_of_a_law_are_predicted():
    assert by_metric(MADE_UP[1])["pass@64"].error == pytest.approx(0, abs=0.02)
    assert by_metric(MADE_UP[2])["pass^4"].error == pytest.approx(0, abs=0.02)
    assert by_metric(MADE_UP[0])["pass@10"].error == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize(
    "row",
    [
        {"kind": "rl_step", "framework": "f", "metrics": {"step_time_s": 1.5, "list": [1, 2], "none": None}},
        {"kind": "rl_claim"},
        {"kind": "diffusion_latency", "model": "x", "device": "h100-sxm-80gb", "metric": "latency_s", "value": None},
        {"kind": "diffusion_latency"},
        {"kind": "problem_successes", "correct": [5], "samples_per_problem": 4},
        {"kind": "problem_successes", "correct": "many"},
        {"kind": "problem_successes"},
        {"kind": "pass_at_k", "percent": {"1": 20.0}},
        {"kind": "pass_at_k", "percent": "none"},
        {"kind": "all_of_k", "fraction": {"1": 2.0, "2": -1.0, "3": 0.5}},
        {"kind": "majority", "percent": {"pass@1": 0.0, "maj@64": 5.0}},
        {"kind": "majority", "percent": []},
        {"kind": "two_attempts", "pass_1_percent": 3.0},
        {"kind": "verifier_selection", "percent": {}},
        {"kind": "early_stop", "online": {"accuracy": 3.0}},
        {"kind": "agent_cost", "total_usd": 3.0},
    ],
)
def test_what_cannot_be_predicted_says_why(row):
    found = validate([row]).rows
    assert found and all(o.predicted is None and o.reason and "could not be" not in o.reason for o in found)
    assert all(math.isfinite(o.measured) for o in found)


@pytest.mark.slow
def test_bars_on_the_measured_rows():
    """No row is dropped; bands of 80 % hold 70 % of what is predicted at least, over all kinds together."""
    found = validate(rows("reasoning_quality")).rows
    judged = [o for o in found if o.interval is not None]
    inside = [o.interval["low"] <= o.measured <= o.interval["high"] for o in judged if o.interval is not None]
    assert len(found) > 800 and len(judged) > 150 and np.mean(inside) >= 0.7
    assert all(o.reason for o in found if o.predicted is None)


def test_majority_on_aime():
    errors = [
        abs(o.predicted - o.measured) / 100
        for o in validate([r for r in rows("reasoning_quality") if r["kind"] == "majority"]).rows
        if o.predicted is not None
    ]
    assert len(errors) == 6 and np.mean(errors) < 0.06


def test_the_page_has_a_line_for_each_figure_and_each_reason():
    from windtunnel_lab.accuracy.reasoning_table import reasoning_page

    page = reasoning_page(validate([*MADE_UP, {"kind": "rl_step", "framework": "f", "metrics": {"step_time_s": 1.5}}]))
    assert "| two_attempts | polyglot-225 | pass_2_percent | 1 of 1 |" in page
    assert "| rl_step | 1 | rows of post-training" in page
    assert page.count("| is what the prediction starts from |") == 11


def test_sums_follow_from_their_parts():
    trace = by_metric(MADE_UP[-2])
    assert trace["input_tokens_per_query"].predicted == 150.0 and trace["calls_per_query"].grade == "analytic"
    without = {k: v for k, v in MADE_UP[-2].items() if k != "traces"}
    assert by_metric(without)["output_tokens_per_query"].predicted == 15.0
    assert by_metric(MADE_UP[-3])["usd_per_issue"].predicted == 4.6
    cached = by_metric(MADE_UP[-1])["cached_input_tokens"]
    assert 0.95e9 < cached.predicted < 0.975e9  # 80 calls a session: 2 of 80 prompts are new
    threads = {
        "kind": "parallel_threads",
        "task": "c",
        "apr": {"total_tokens": [9000.0], "mean_sequence_tokens": [1000.0], "child_threads": [7.0]},
        "sequential": {"token_latency": 1000.0},
        "threaded": {"token_latency": 800.0},
        "mean_speedup": 1.3,
    }
    found = by_metric(threads)
    assert found["mean_speedup"].predicted == 1.25 and found["apr.total_tokens.0"].predicted == 8000.0


@pytest.mark.parametrize("row", MADE_UP, ids=lambda r: r["kind"])
def test_order_of_fields_says_nothing(row):
    def turned(value: Any) -> Any:
        return {k: turned(value[k]) for k in reversed(value)} if isinstance(value, dict) else value

    before, after = by_metric(row), by_metric(turned(row))
    assert {m: o.predicted for m, o in before.items()} == {m: o.predicted for m, o in after.items()}


@pytest.mark.parametrize("value", [10**400, float("nan"), float("inf"), 1e300, -5.0], ids=str)
@pytest.mark.parametrize("row", MADE_UP[1:], ids=lambda r: r["kind"])
def test_numbers_that_measure_nothing_leave_json_that_can_be_read(row, value):
    def damaged(part: Any) -> Any:
        if isinstance(part, dict):
            return {k: damaged(v) for k, v in part.items()}
        return value if isinstance(part, int | float) else part

    for changed in (damaged(row), *(row | {k: damaged(v)} for k, v in row.items())):
        found = validate([changed]).rows
        text = json.dumps([o.to_dict() for o in found], allow_nan=False)
        assert text and all("could not be" not in o.reason for o in found)
        assert all(o.interval is None or o.interval["low"] <= o.predicted <= o.interval["high"] for o in found)


@pytest.mark.parametrize("row", MADE_UP, ids=lambda r: r["kind"])
def test_rows_without_one_of_their_fields_still_have_an_entry(row):
    for left_out in row:
        if left_out == "kind":
            continue
        found = validate([{k: v for k, v in row.items() if k != left_out}]).rows
        assert found and all("could not be" not in o.reason for o in found)
        found = validate([row | {left_out: "?"}, row | {left_out: None}, row | {left_out: []}]).rows
        assert found and all("could not be" not in o.reason for o in found)


def test_a_stated_temperature_is_one_temperature():
    row = {
        "kind": "pass_at_k",
        "task": "humaneval-164",
        "samples": 200,
        "percent": {"1": 20.0, "10": 35.0, "100": 55.0},
    }
    chosen, stated = by_metric(row)["pass@100"], by_metric(row | {"temperature": 0.8})["pass@100"]
    assert chosen.predicted > stated.predicted + 5 and chosen.assumed[0][0] == "population.temperature"
    assert stated.interval["high"] < chosen.predicted


@pytest.mark.parametrize(
    ("row", "units"),
    [
        ({"kind": "rl_step", "metrics": {"tokens_per_s": 1.0, "step_time_s": 2.0, "mfu_percent": 3.0}},
         {"tokens_per_s": "tokens/s", "step_time_s": "s", "mfu_percent": "percent"}),
        ({"kind": "ray_rate", "name": "tasks", "value": 5.0, "standard_deviation": 1.0, "unit": "tasks/s"},
         {"tasks": "tasks/s", "tasks.standard_deviation": "tasks/s"}),
        ({"kind": "minhash_dedup", "data": "200GB", "nodes": 4, "cores": 640, "minutes": 11.0}, {"minutes": "min"}),
        ({"kind": "data_pipeline", "samples": 7e10, "cores": 6400, "hours": 2}, {"hours": "h"}),
    ],
)  # fmt: skip
def test_units_and_reasons_of_rows_that_are_not_predicted(row, units):
    found = by_metric(row)
    assert {m: o.unit for m, o in found.items()} == units
    assert all(
        o.predicted is None and "not read from rows" in o.reason and o.row_kind == row["kind"] for o in found.values()
    )


@pytest.mark.slow
def test_public_tables_judge():
    """Bars: tables of τ²-bench, code benchmarks and votes; bands of 80 % hold 75 to 85 % of 186 figures."""
    found = [o for o in validate(shipped_reasoning_rows()).rows if o.interval is not None]
    inside = [o.interval["low"] <= o.measured <= o.interval["high"] for o in found if o.interval is not None]
    assert len(found) == 186 and 0.75 <= np.mean(inside) <= 0.85
    retail = [o.error for o in found if o.family == "tau2-bench retail" and o.metric == "pass^3"]
    assert len(retail) == 16 and np.max(np.abs(retail)) < 0.03
