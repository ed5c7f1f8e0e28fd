"""The zero-bubble paper: 36 bubble rates to four decimals on the engine, and the engine against the plain evaluator."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from windtunnel import schedules
from windtunnel.errors import BadInput
from windtunnel.schedules import ScheduleCosts
from windtunnel_lab import reproduce as papers
from windtunnel_lab.papers.zero_bubble import experiment


def test_the_36_published_bubble_rates() -> None:
    results = experiment.bubble_rates(experiment.HANDMADE, 0.00005, ())
    assert len(results) == 36
    assert [(x.id, round(x.simulated, 4)) for x in results] == [(x.id, x.published) for x in results]
    assert all(x.within for x in results)


def test_a_wrong_profile_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = experiment.EXPERIMENT.setting
    wrong = whole | {"rows": [[*row[:3], row[3] * 1.02, *row[4:]] for row in whole["rows"]]}
    monkeypatch.setattr(experiment, "EXPERIMENT", SimpleNamespace(setting=wrong))
    experiment._row_cost_s.cache_clear()
    try:
        assert not any(x.within for x in experiment.bubble_rates(("zb_h1", "zb_h2"), 0.00005, ()))
    finally:
        experiment._row_cost_s.cache_clear()


# units of several rows are what `training.step` makes of them
@pytest.mark.parametrize("id_", [id_ for id_ in schedules.list_ids() if not schedules.describe(id_).units])
def test_engine_and_evaluator_agree(id_: str) -> None:
    p, m = 4, 8
    v = next(v for v in (1, 2) if schedules.describe(id_).check(p, m, v) is None)
    rng = np.random.default_rng(7)
    costs = ScheduleCosts(*(rng.uniform(0.5, 2.0, (p, v)) for _ in range(3)), comm_s=0.3)
    table = schedules.build(id_, p, m, v, costs)
    if table.joined is not None:
        pytest.skip("rows that run as one unit: the paper's schedules have none")
    assert experiment.engine_cost_s(table, costs) == pytest.approx(schedules.evaluate(table, costs)[2], rel=1e-12)


def test_papers_are_found_by_folder() -> None:
    assert "zero_bubble" in papers.list_papers()
    with pytest.raises(BadInput, match="did you mean 'zero_bubble'"):
        papers.run_paper("zero_buble")


def test_the_share_of_activations_kept_for_the_weight_gradient() -> None:
    assert experiment.kept_after_backward(6144, 48) == pytest.approx(32 * 6144 / (34 * 6144 + 5 * 48 * 1024))


def test_throughput_gains_are_reported_with_their_range_and_misses_stay() -> None:
    gains = {x.id: x for x in experiment.throughput_gains()}
    assert gains["gain/zb_2p/28.3B/m96"].within and gains["gain/zb_1p/28.3B/m96"].within
    for gain in gains.values():
        assert gain.low < gain.simulated < gain.high
        assert gain.within == (abs(gain.simulated / gain.published - 1) <= 0.05)
