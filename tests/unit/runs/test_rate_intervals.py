"""Rates that were counted are drawn from what their counts leave open, and the loop that is done sooner runs first."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import gamma

from windtunnel import api
from windtunnel.catalog.run_tables import failure_profile, failure_profiles
from windtunnel.errors import BadInput
from windtunnel.runs.event_loop import replicate
from windtunnel.runs.event_loop.replicate import Frailty, jitted, replications, soonest
from windtunnel.runs.rate_intervals import gamma_shape
from windtunnel.runs.results import joint_band
from windtunnel.runs.simulate import prepared_run

SMALL: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 128, "framework": "torchtitan"},
    "plan": {"zero": 3, "mbs": 1},
    "run": {"tokens": "50B", "replications": 200, "recovery": {"spares": 4}},
}


def with_cause(**cause: Any) -> dict[str, Any]:
    failures = {"causes": [{"name": "process", "radius": "process", **cause}]}
    return {**SMALL, "run": {**SMALL["run"], "failures": failures}}


@pytest.mark.parametrize("count", [2, 17, 148, 4290])
def test_the_shape_is_that_of_the_count(count: int) -> None:
    """Jeffreys' posterior of a count has the shape count + 1/2, whatever the exposure."""
    low, high = gamma.ppf([0.1, 0.9], count + 0.5) / 37.0
    assert gamma_shape(count / 37.0, (low, high)) == pytest.approx(count + 0.5, rel=1e-6)


def test_the_ends_of_what_can_be_known() -> None:
    assert gamma_shape(2.0, (2.0, 2.0)) == gamma_shape(0.0, (0.0, 1.0)) == math.inf
    assert gamma_shape(1.0, (0.0, 1000.0)) == 0.5


def test_draws_have_the_mean_of_the_rate_and_the_width_of_its_interval() -> None:
    shape = gamma_shape(6.0, (4.0, 8.3))
    drawn = np.array([Frailty(rate_shapes=(shape, math.inf)).draw_rates(2, 1, i) for i in range(200)])
    assert drawn[:, 0].mean() == pytest.approx(1.0, abs=0.005) and (drawn[:, 1] == 1.0).all()
    low, high = np.percentile(drawn[:, 0], [10, 90])
    assert high / low == pytest.approx(8.3 / 4.0, rel=0.05)
    together = Frailty(common_shape=5.0).draw_rates(3, 1, 0)
    assert together is not None and len({*together.tolist()}) == 1
    assert Frailty().draw_rates(3, 1, 0) is None


def test_an_unsure_rate_widens_the_days_and_is_told() -> None:
    known, unsure = (
        api.simulate_run(with_cause(per_1000_node_days=3000, **more), sensitivities=False)
        for more in ({}, {"rate_interval": [1500, 5000]})
    )
    width = [r.days["p90"] - r.days["p10"] for r in (known, unsure)]
    assert width[1] > 1.5 * width[0]
    assert unsure.failures_mean == pytest.approx(known.failures_mean, rel=0.04)
    assert unsure.interval["high"] - unsure.interval["low"] > known.interval["high"] - known.interval["low"]
    told = {field: value for field, value, _ in unsure.assumed}
    assert told["run.failures"] == "1 of 1 rates drawn anew in each replication"
    assert {f: v for f, v, _ in known.assumed}["run.failures"] == "rates as stated"


def test_an_interval_must_hold_its_rate() -> None:
    with pytest.raises(BadInput, match=r"`rate_interval` 4 to 9 must hold the rate, 3"):
        api.simulate_run(with_cause(per_1000_node_days=3, rate_interval=[4, 9]), sensitivities=False)


def test_published_counts_have_their_intervals() -> None:
    """Llama 3 counted 148 faulty GPUs in 110,592 node-days; parameters of a simulator were counted by nobody."""
    for name in ("llama3-2024", "opt-175b-2022", "bloom-176b-2022", "rsc-1-2024"):
        assert all(cause.rate_interval for cause in failure_profile(name).causes), name
    faulty = failure_profile("llama3-2024").causes[0]
    assert faulty.rate_interval == pytest.approx(gamma.ppf([0.1, 0.9], 148.5) / 110.592, rel=1e-3)
    assert not failure_profile("airesim-base").causes[0].rate_interval
    assert "airesim-base" in failure_profiles()


def test_the_joint_band_has_both_parts() -> None:
    days = np.full(50, 10.0)
    alone = joint_band(days, 0.8, 1.3)
    assert alone["low"] == pytest.approx(8.0, rel=0.02) and alone["high"] == pytest.approx(13.0, rel=0.02)
    spread = np.exp(np.linspace(-0.5, 0.5, 51)) * 10.0
    both = joint_band(spread, 0.8, 1.3)
    assert both["low"] < min(8.0, np.percentile(spread, 10)) and both["high"] > max(13.0, np.percentile(spread, 90))
    assert joint_band(spread, 1.0, 1.0)["low"] == pytest.approx(np.percentile(spread, 10))


def test_the_plain_loop_runs_until_compiling_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both loops give the same run; the twin has its time once, and no process has more than compiling takes."""
    x = prepared_run(with_cause(per_1000_node_days=3000))
    monkeypatch.setattr(replicate, "is_compiled", lambda _: False)
    twin = replicate._Twin(before_s=0.0)
    monkeypatch.setattr(replicate, "_TWIN", twin)
    monkeypatch.setattr(replicate, "kernel_file", lambda *_: Path("/proc/none"))
    ran: list[str] = []
    monkeypatch.setattr(replicate, "jitted", lambda *a: ran.append("jitted") or jitted(*a))
    first = list(replications(x.program, x.frailty, 2, 1, soonest))
    assert not ran and twin.here_s > 0
    twin.here_s = replicate.TWIN_S
    second = list(replications(x.program, x.frailty, 2, 1, soonest))
    assert ran == ["jitted", "jitted"]
    assert [r.seconds.tolist() for r in first] == [pytest.approx(r.seconds.tolist(), rel=1e-9) for r in second]
    monkeypatch.setattr(replicate, "_TWIN", replace(twin, here_s=0.0, before_s=replicate.COMPILE_S))
    assert not replicate._TWIN.has_time


def test_runs_begin_anywhere_with_the_same_numbers() -> None:
    x = prepared_run(with_cause(per_1000_node_days=3000, rate_interval=[1500, 5000]))
    whole = [r.wall_s for r in replications(x.program, x.frailty, 6, 1)]
    assert [r.wall_s for r in replications(x.program, x.frailty, 2, 1, first=4)] == whole[4:]


def test_the_terminal_says_what_the_run_leaves_open() -> None:
    from windtunnel.views.run import assumed_rows

    result = api.simulate_run(with_cause(per_1000_node_days=3000, rate_interval=[1500, 5000]), sensitivities=False)
    rows = {field: value for field, value, _ in assumed_rows(result)}
    assert rows["run.failures"] == "1 of 1 rates drawn anew in each replication"
    assert all(field.startswith("run.") for field in rows)
