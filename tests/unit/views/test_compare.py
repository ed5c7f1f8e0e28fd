"""The comparison of two predictions: bars on one scale, names that tell the two apart, chosen fields."""

from __future__ import annotations

import pytest

import windtunnel as wt
from windtunnel.quantities import seconds
from windtunnel.training.comparison import difference
from windtunnel.views import compare
from windtunnel.views.view import Table, Text, View, Words, plain
from windtunnel.writers import html

SCENARIO = {
    "name": "small",
    "model": "openai-community/gpt2",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
    "training": {"seq_len": 1024, "global_batch": 16},
    "plan": {"tp": 2, "mbs": 4},
}


def test_bars_share_one_scale_and_changes_are_those_that_somebody_chose() -> None:
    a = wt.simulate_training(SCENARIO)
    b = wt.simulate_training(SCENARIO, overrides=["plan.mbs=2"])
    comparison = difference(a, b)
    rows = _steps(compare.view(comparison))
    bars = [(bar.start, bar.share or 0.0) for _, _, bar in rows]
    assert [plain(rows[0][1]), plain(rows[-1][1])] == [seconds(a.step_time_s), seconds(b.step_time_s)]
    assert bars[0][0] == bars[-1][0] == 0.0
    assert bars[-1][1] / bars[0][1] > 1.0 if b.step_time_s > a.step_time_s else bars[-1][1] / bars[0][1] < 1.0
    at = bars[0][1]
    for (start, share), (_, said, _) in zip(bars[1:-1], rows[1:-1], strict=True):
        at += share if plain(said).startswith("+") else -share
        assert min(abs(at - start), abs(at - start - share)) < 1e-9, "a step begins where the one before ends"
    assert at == pytest.approx(bars[-1][1], rel=1e-6), "the steps between lead from one to the other"
    assert "m" in comparison.plan and set(comparison.chosen) == {"mbs"}
    page = html.render(compare.view(comparison))
    assert "small against itself as changed" in page and "plan.m<" not in page


def _steps(view: View) -> list[tuple[Words, Words, Text]]:
    (section,) = (one for one in view.sections if one.title == "From A to B")
    (table,) = section.blocks
    assert isinstance(table, Table)
    found = []
    for name, said, bar in table.rows:
        assert isinstance(bar, Text)
        found.append((name, said, bar))
    return found


def test_bars_of_a_waterfall_begin_at_zero() -> None:
    found = compare.waterfall("A", 0.981, {"memory bound": -0.028, "gemm": -0.006}, "B")
    bars = [row[2] for row in found.rows]
    assert all(isinstance(bar, Text) and bar.share for bar in bars)
    first, *between, last = (bar for bar in bars if isinstance(bar, Text))
    assert first.start == last.start == 0.0
    assert (last.share or 0.0) / (first.share or 1.0) == pytest.approx(0.947 / 0.981)
    assert all(bar.start > 0.9 for bar in between)


def test_two_equal_steps_have_no_verdict_between_them() -> None:
    result = wt.simulate_training(SCENARIO)
    view = compare.view(difference(result, result))
    assert view.title == "small against itself as changed"
    assert [plain(line) for line in view.lead] == ["A and B take the same time"]
