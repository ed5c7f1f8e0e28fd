"""Validation runs with a stand-in simulator: contract of the report, gates, ranking, the constant baseline."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measured_rows import row

from windtunnel.errors import BadInput, GateFailed
from windtunnel.specs.scenario import Scenario
from windtunnel.training.results.records import Interval, MemoryReport
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.validation.predict.report import RowOutcome
from windtunnel.validation.predict.validate import validate
from windtunnel.validation.rows.row_files import load_rows, shipped_rows
from windtunnel.validation.rows.targets import GIB, at_step_time
from windtunnel_lab.accuracy.constant_baseline import best_constant, constant_errors
from windtunnel_lab.accuracy.plan_ranking import kendall_tau, rank_groups, rank_plans, regret_text
from windtunnel_lab.accuracy.write_page import accuracy_page


def result(seconds: float, tokens: float = 128 * 8192.0, devices: int = 64) -> TrainingResult:
    """A result with a step time and rates that agree with it."""
    curve = np.zeros(1)
    flop = 6 * 8e9 * tokens / devices
    return TrainingResult(
        scenario_name="",
        step_time_s=seconds,
        tokens_per_s=tokens / seconds,
        tokens_per_s_per_device=tokens / seconds / devices,
        model_tflops_per_device=flop / seconds / 1e12,
        hardware_tflops_per_device=flop / seconds / 1e12,
        mfu=flop / seconds / 989e12,
        hfu=0.5,
        peak_memory_allocated_bytes=40.0 * GIB,
        peak_memory_reserved_bytes=44.0 * GIB,
        memory_fits=True,
        breakdown={"compute": seconds},
        interval=Interval(0.8, 0.9 * seconds, 1.1 * seconds, "test", "fitted"),
        memory=MemoryReport(
            stage=0,
            peak_allocated_bytes=40.0 * GIB,
            peak_reserved_bytes=44.0 * GIB,
            capacity_bytes=80.0 * GIB,
            at_peak={},
            per_stage_allocated_bytes=(),
            curve_time_s=curve,
            curve_bytes=curve,
        ),
        sensitivities={},
        bound_by="compute",
        plan={},
        num_devices=devices,
        num_micro_batches=8,
    )


class Simulator:
    """Counts calls; one second a step unless told otherwise."""

    def __init__(self, seconds: float = 3.3) -> None:
        self.seconds, self.calls = seconds, 0

    def __call__(self, scenario: Scenario, **how: object) -> TrainingResult:
        self.calls += 1
        return result(self.seconds)


def test_one_entry_per_row_and_metric_in_the_contracts_shape() -> None:
    served = {"id": "s", "kind": "serving", "set": "v", "hardware": "H100", "metrics": {"ttft_mean_ms": 1.0, "x": None}}
    rows = [row(mem_gib=50.0), row(id="y", hardware__device="abacus", hardware__device_canonical=None), served]
    report = validate(rows, simulate=Simulator()).to_dict()
    assert set(report) == {"rows", "summary"}
    assert set(report["rows"][0]) == {
        "id",
        "row_kind",
        "family",
        "device",
        "metric",
        "unit",
        "measured",
        "predicted",
        "interval",
        "error",
        "grade",
        "assumed",
        "reason",
    }
    assert set(report["summary"][0]) == {
        "row_kind",
        "family",
        "device",
        "metric",
        "n",
        "n_predicted",
        "mape",
        "median_ape",
        "bias",
        "coverage80",
        "mean_relative_width",
    }
    assert [r["metric"] for r in report["rows"]] == ["step_time", "peak_memory_allocated", "step_time", "ttft_mean_ms"]
    first, memory, unknown, serving = report["rows"]
    assert first["error"] == pytest.approx(0.1) and first["interval"]["low"] == pytest.approx(2.97)
    assert memory["predicted"] == pytest.approx(40.0) and memory["interval"] is None
    assert unknown["predicted"] is None and "abacus" in unknown["reason"]
    assert serving["predicted"] is None and "model None" in serving["reason"]
    assert json.loads(json.dumps(report)) == report


def test_equal_scenarios_are_simulated_once() -> None:
    simulator = Simulator()
    report = validate([row(), row(id="again", value=9.0), row(id="other", seq_len=4096)], simulate=simulator)
    assert simulator.calls == 2 and report.scenarios == 2 and len(report.rows) == 3


def test_a_scenario_that_the_simulator_refuses_keeps_its_row() -> None:
    def refuse(scenario: Scenario, **how: object) -> TrainingResult:
        raise BadInput("plan.tp = 3: must divide")

    outcome = validate([row()], simulate=refuse).rows[0]
    assert outcome.predicted is None and outcome.reason == "plan.tp = 3: must divide"


def test_summary_and_gate() -> None:
    report = validate([row(), row(id="b", seq_len=4096, derived={"step_time_s": 2.0})], simulate=Simulator())
    (summary,) = report.summary
    assert summary.mape == pytest.approx((0.1 + 0.65) / 2) and summary.bias == pytest.approx(0.375)
    assert summary.coverage80 == pytest.approx(0.5)
    assert summary.mean_relative_width == pytest.approx(0.2)
    report.gate("mape=0.5")
    with pytest.raises(GateFailed, match=r"mape = 0\.3750 is beyond 0\.12"):
        report.gate("mape=0.12")
    with pytest.raises(GateFailed, match="coverage80"):
        report.gate("coverage80=0.8")
    with pytest.raises(BadInput):
        report.gate("speed=3")


def test_repeats_are_judged_against_their_median() -> None:
    again = [row(), row(id="b", derived={"step_time_s": 3.6}), row(id="c", derived={"step_time_s": 3.3})]
    (summary,) = validate(again, simulate=Simulator()).summary
    assert summary.n == 3 and summary.mape == pytest.approx(0.0, abs=1e-9) and summary.coverage80 == 1.0


def test_rates_convert_both_ways() -> None:
    stated = row(metric="tokens_per_s_per_device", unit="tokens/s/GPU", derived={}, value=5000.0)
    outcome = validate([stated], simulate=Simulator(4.0)).rows[0]
    assert outcome.predicted == pytest.approx(128 * 8192 / 4.0 / 64)
    assert outcome.interval is not None
    assert outcome.interval["high"] == pytest.approx(128 * 8192 / 3.6 / 64)


def test_oom_rows_ask_whether_it_fits() -> None:
    stated = row(metric="oom", value=True, derived={}, unit="")
    outcome = validate([stated], simulate=lambda s, **how: replace(result(1.0), memory_fits=False)).rows[0]
    assert outcome.error == 0.0
    assert validate([stated], simulate=Simulator()).rows[0].error == -1.0


def test_rates_follow_a_changed_step_time() -> None:
    slow = at_step_time(result(2.0), 4.0)
    assert slow.tokens_per_s == pytest.approx(result(4.0).tokens_per_s)
    assert slow.mfu == pytest.approx(result(4.0).mfu)


def test_bad_files_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        load_rows(tmp_path / "absent.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(BadInput, match="not JSON"):
        load_rows(tmp_path / "broken.json")
    (tmp_path / "map.json").write_text("{}")
    with pytest.raises(BadInput, match="list"):
        load_rows(tmp_path / "map.json")


def outcome(name: str, measured: float, predicted: float, **changes: Any) -> RowOutcome:
    base = RowOutcome(
        id=name,
        row_kind="training",
        family="f",
        device="d",
        metric="step_time",
        unit="s",
        measured=measured,
        predicted=predicted,
        interval=None,
        error=predicted / measured - 1,
        grade="fitted",
        assumed=(),
        reason="",
        group="g",
        devices=8,
        tokens=1000.0,
        flop_per_device=1e12,
        predicted_seconds=predicted,
        fits=True,
        seq_len=2048,
        plan=name,
    )
    return replace(base, **changes)


def test_kendall_ignores_pairs_within_the_noise() -> None:
    measured = np.array([1.0, 1.01, 2.0])
    assert kendall_tau(np.array([2.0, 1.0, 3.0]), measured) == (1.0, 2)
    assert kendall_tau(-measured, measured) == (-1.0, 2)


def test_plans_compete_where_nothing_else_differs_whatever_was_measured() -> None:
    slow, fast = outcome("slow", 2.0, 1.9), outcome("fast", 1.0, 2.0)  # the slow one is predicted to be the faster
    rate = replace(fast, metric="tokens_per_s", measured=1000.0, predicted=500.0)
    for other in (fast, rate):
        (found,) = rank_plans([slow, other])
        assert found.regret == pytest.approx(1.0) and found.taken == 2
    assert rank_plans([slow, replace(fast, work="another batch")]) == ()
    assert rank_plans([replace(slow, fits=False), fast])[0].regret == 0.0  # nobody plans what does not fit
    assert regret_text([slow, fast]).startswith("Regret of the planner over measured plans: 100.0 % in the mean of 1 ")


def test_regret_is_the_cost_of_the_pick() -> None:
    rows = [outcome(str(i), 1.0 + 0.1 * i, 1.0 + 0.1 * i) for i in range(8)]
    rows[3] = outcome("3", 1.3, 0.5)
    (ranking,) = rank_groups(rows)
    assert ranking.regret == pytest.approx(0.3) and ranking.taken == 4 and ranking.n == 8
    again = [outcome("0", 1.2, 1.0)]
    assert rank_groups(rows + again)[0].n == 8
    assert rank_groups(rows[:7]) == ()


def test_the_constant_is_the_best_one_and_sees_other_groups_only() -> None:
    flop, seconds = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 6.0])
    best = best_constant(flop, seconds)
    errors = [np.abs(flop / c / seconds - 1).mean() for c in np.linspace(0.2, 2, 2000)]
    assert np.abs(flop / best / seconds - 1).mean() <= min(errors) + 1e-9
    rows = [outcome("a", 1.0, 1.0, group="a"), outcome("b", 2.0, 2.0, group="b")]
    assert constant_errors(rows) == pytest.approx([1.0, -0.5])
    assert constant_errors(rows[:1]).size == 0


def test_every_shipped_row_has_a_source_and_reads() -> None:
    rows = shipped_rows()
    assert len(rows) > 150
    assert all(isinstance(r.get("source"), str) and r["source"] for r in rows)
    assert len({r["id"] for r in rows}) == len(rows)


@pytest.mark.slow
def test_the_page_has_its_sections() -> None:
    page = accuracy_page(validate([row(mem_gib=50.0)], simulate=Simulator()))
    for heading in ("## Out of sample", "## Devices left out", "## Memory", "## Order of plans", "## Not predicted"):
        assert heading in page
    assert "| some-lab | h100-sxm-80gb | peak_memory_allocated | 1 of 1 | 20.0 |" in page
