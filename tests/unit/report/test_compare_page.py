"""The comparison of two predictions as a page: honest axes, names that tell the two apart, chosen fields."""

from __future__ import annotations

import pytest

import windtunnel as wt
from windtunnel.report.training import compare_html
from windtunnel.report.training.compare import difference

SCENARIO = {
    "name": "small",
    "model": "openai-community/gpt2",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
    "training": {"seq_len": 1024, "global_batch": 16},
    "plan": {"tp": 2, "mbs": 4},
}


def test_bars_begin_at_zero_and_changes_are_those_that_somebody_chose() -> None:
    a = wt.simulate_training(SCENARIO)
    b = wt.simulate_training(SCENARIO, overrides=["plan.mbs=2"])
    comparison = difference(a, b)
    chart = comparison.figure().at(560)
    assert chart.x.low is not None and chart.x.low <= 0.0 and chart.x.high > max(a.step_time_s, b.step_time_s)
    bars = comparison.figure().bars
    assert bars[0].start == bars[-1].start == 0.0 and (bars[0].end, bars[-1].end) == (a.step_time_s, b.step_time_s)
    assert bars[-2].end == pytest.approx(b.step_time_s, rel=1e-6), "the steps between lead from one to the other"
    assert "m" in comparison.plan and set(comparison.chosen) == {"mbs"}
    page = compare_html.render(comparison)
    assert "small against as changed" in page and "plan.m<" not in page
