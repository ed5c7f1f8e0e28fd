"""`windtunnel run`: what it says, what it refuses, and a run that is under way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel import api
from windtunnel.catalog.run_tables import failure_profiles, grids, profile_of
from windtunnel.errors import BadInput, Infeasible
from windtunnel.runs.event_loop.program import CLASSES
from windtunnel.runs.progress_log import read_progress_log
from windtunnel.runs.results import histogram
from windtunnel.specs.run import RunSpec

SMALL: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 128, "framework": "torchtitan"},
    "plan": {"zero": 3, "mbs": 1},
}


def scenario(**run: Any) -> dict[str, Any]:
    return {**SMALL, "run": {"tokens": "50B", "failures": "opt-175b-2022", "replications": 8, **run}}


def refusal(**run: Any) -> str:
    with pytest.raises(BadInput) as caught:
        api.simulate_run(scenario(**run), sensitivities=False)
    return str(caught.value)


def test_the_result_adds_up() -> None:
    result = api.simulate_run(scenario(grid="germany", recovery={"spares": 1}, replications=30))
    assert result.days["p10"] <= result.days["p50"] <= result.days["p90"]
    assert result.days["mean"] > result.ideal_days
    assert sum(result.seconds.values()) / 86400 == pytest.approx(result.days["mean"])
    assert tuple(result.seconds) == CLASSES
    assert result.goodput + sum(result.badput.values()) == pytest.approx(1.0)
    assert result.ettr["productive"] <= result.ettr["without_queueing"]
    assert result.carbon_kg == pytest.approx(result.energy_kwh * 0.3134, rel=1e-3)
    assert result.interval["low"] < result.days["mean"] < result.interval["high"]
    assert result.sensitivities["half the failures"] < 0
    assert result.sensitivities.keys() == result.sensitivity_intervals.keys()
    low, high = result.sensitivity_intervals["half the failures"]
    assert low < result.sensitivities["half the failures"] < high
    days = [point["days"] for point in result.spares_curve]
    assert days[0] == max(days) and days[-1] <= days[0]
    assert result.spares in [point["spares"] for point in result.spares_curve]
    middle = [point["days"] for point in result.interval_curve]
    assert middle[2] <= min(middle[0], middle[-1])
    data = json.loads(json.dumps(result.to_dict(), default=float))
    for key in ("days", "ideal_days", "goodput", "ettr", "badput", "failures_mean", "restarts_mean", "checkpoint"):
        assert key in data
    bins = data["days_histogram"]
    assert len(bins["edges_days"]) == len(bins["counts"]) + 1 and sum(bins["counts"]) == result.replications
    assert (bins["edges_days"][0], bins["edges_days"][-1]) == (min(result.every_days), max(result.every_days))
    for key in ("spares", "cost", "currency", "energy_kwh", "carbon_kg", "replications", "interval", "simulated_in_s"):
        assert key in data


def test_days_fall_into_bins_of_equal_width() -> None:
    found = histogram([1.0, 2.0, 2.0, 6.0])
    assert found == {"edges_days": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "counts": [1, 2, 0, 0, 1]}
    assert sum(histogram([3.5])["counts"]) == 1 and histogram(()) == {"edges_days": [], "counts": []}
    assert len(histogram(list(range(1000)))["counts"]) == 40


def test_a_run_that_may_wait_begins_when_electricity_is_clean() -> None:
    """Germany's months differ: a run of some days from January on may wait for February."""
    now, later = (
        api.simulate_run(
            scenario(grid="germany", start="2021-01-05", start_within=within, replications=4), sensitivities=False
        )
        for within in (0, "60 d")
    )
    assert now.carbon_kg is not None and later.carbon_kg is not None
    assert later.carbon_kg < 0.95 * now.carbon_kg and now.begins_after_s is None
    assert later.begins_after_s is not None and 0 < later.begins_after_s <= 60 * 86400
    assert "start_within" in refusal(start_within="1 d")


def test_fewer_failures_and_more_spares_never_cost_days() -> None:
    days = [
        api.simulate_run(scenario(failures=profile, recovery={"spares": 2}), sensitivities=False).days["mean"]
        for profile in ("none", "rsc-1-2024", "opt-175b-2022")
    ]
    assert days == sorted(days)
    alone = api.simulate_run(scenario(), sensitivities=False).days["mean"]
    assert days[2] < alone


def test_shrinking_beats_waiting_for_repairs() -> None:
    waiting = api.simulate_run(scenario(), sensitivities=False)
    shrinking = api.simulate_run(scenario(recovery={"policy": "shrink"}), sensitivities=False)
    assert shrinking.badput["degraded_steps"] > 0
    assert shrinking.days["mean"] < waiting.days["mean"]


def test_nearer_tiers_lose_less_where_nodes_stay() -> None:
    causes = [{"name": "software", "per_job_day": 20, "radius": "process", "detect_s": 30}]
    far = {"interval": "1 h", "tiers": [{"to": "storage"}]}
    near = {"interval": "2 min", "tiers": [{"to": "host", "mode": "async"}, {"to": "storage", "every": 30}]}
    lost = [
        api.simulate_run(scenario(failures={"causes": causes}, checkpoint=c), sensitivities=False).seconds[
            "lost_progress"
        ]
        for c in (far, near)
    ]
    assert lost[1] < 0.1 * lost[0]


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"failures": "llama4"}, "run.failures = llama4: must be one of"),
        ({"steps": 10}, "needs one of `tokens` and `steps`"),
        ({"recovery": {"spares": 9}}, "run.recovery.spares = 9: spares, pool_nodes and shared_nodes must together"),
        ({"checkpoint": {"interval": "2 s", "tiers": [{"to": "storage", "mode": "async"}]}}, "must leave time to save"),
        ({"checkpoint": {"interval": "soon"}}, "run.checkpoint.interval = soon"),
        ({"checkpoint": {"interval": "10 min", "interval_steps": 5}}, "needs one of `interval` and `interval_steps`"),
        ({"grid": "atlantis"}, "run.grid = atlantis: must be one of"),
        ({"failures": {"causes": [{"name": "x"}]}}, "needs one of per_1000_node_days"),
        ({"replications": 0}, "run.replications = 0"),
    ],
)
def test_what_cannot_be_is_one_line(run: dict[str, Any], said: str) -> None:
    assert said in refusal(**run)


def test_every_problem_is_told_at_once() -> None:
    """Names of a run, its files and sizes, and the plan's: one round, whatever is wrong."""
    wrong = {
        **scenario(
            failures="llama4",
            grid="atlantis",
            recovery={"spares": 99, "pool_nodes": 1},
            stragglers={"wait": "slowest"},
            spot={"trace": "nowhere.csv"},
        ),
        "plan": {"tp": 3},
    }
    with pytest.raises(BadInput) as caught:
        api.simulate_run(wrong)
    told = {problem.field for problem in caught.value.problems}
    assert {"run.failures", "run.grid", "run.stragglers.wait", "run.spot.trace", "run.recovery.pool_nodes"} <= told
    assert any(field.startswith("plan") for field in told)
    with pytest.raises(BadInput) as caught:  # also where fields cannot be read at all
        api.simulate_run({**wrong, "run": {"failures": "llama4", "grid": "atlantis", "replications": 0}})
    told = {problem.field for problem in caught.value.problems}
    assert {"run.failures", "run.grid", "run.replications"} <= told


def test_a_run_that_never_ends_is_said() -> None:
    causes = [{"name": "flood", "per_job_day": 5000}]
    checkpoint = {"interval": "10 min", "tiers": [{"to": "storage"}]}
    with pytest.raises(Infeasible, match="no run ends within"):
        api.simulate_run(
            scenario(failures={"causes": causes}, checkpoint=checkpoint, limit_days=5), sensitivities=False
        )


def test_a_run_whose_copies_all_die_with_a_node_says_so() -> None:
    nodes = {"causes": [{"name": "broken node", "per_1000_node_days": 5000}]}
    tiers = {"interval": "10 min", "tiers": [{"to": "host"}]}
    with pytest.raises(Infeasible, match=r"no tier of run\.checkpoint\.tiers has a copy left after broken node"):
        api.simulate_run(
            scenario(failures=nodes, checkpoint=tiers, limit_days=5, recovery={"spares": 8}), sensitivities=False
        )
    rare = {"causes": [{"name": "broken node", "per_1000_node_days": 1}]}
    told = api.simulate_run(scenario(failures=rare, checkpoint=tiers), sensitivities=False).warnings
    assert any("copy left after broken node" in line for line in told)
    kept = {**tiers, "tiers": [{"to": "host"}, {"to": "storage"}]}
    told = api.simulate_run(scenario(failures=rare, checkpoint=kept), sensitivities=False).warnings
    assert not any("copy left" in line for line in told)


def test_a_run_without_failures_asks_for_no_other_interval() -> None:
    told = api.simulate_run(scenario(failures="none", checkpoint={"interval": "1 h"}), sensitivities=False).warnings
    assert not any("the shortest expected run saves" in line for line in told)


def test_every_profile_and_grid_of_the_catalogue_is_read() -> None:
    assert {"none", "llama3-2024", "rsc-1-2024"} <= set(failure_profiles())
    assert {"germany", "france"} <= set(grids())
    for name in failure_profiles():
        result = api.simulate_run(scenario(failures=name, replications=2), sensitivities=False)
        assert result.failure_profile == name


def log(path: Path, lines: list[str]) -> Path:
    path.write_text("time,step,event\n" + "\n".join(lines) + "\n", "utf-8")
    return path


def test_a_log_moves_the_end_of_the_run(tmp_path: Path) -> None:
    whole = api.simulate_run(scenario(), sensitivities=False)
    step = whole.step_time_s
    slow = [f"{i * 1000 * step * 1.2},{i * 1000}," for i in range(20)]
    result = api.forecast_run(scenario(), log(tmp_path / "log.csv", slow), sensitivities=False)
    assert result.step_time_s == pytest.approx(1.2 * step)
    assert result.days["mean"] > whole.ideal_days
    assert any("failures so far" in line for line in result.warnings)
    often = [f"{i * 1000 * step},{i * 1000},{'node' if i % 4 == 3 else ''}" for i in range(20)]
    assert read_progress_log(log(tmp_path / "often.csv", often)).failures == 5


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["0,0,", "x,10,"], "line 3 of log.csv has no time and step"),
        (["0,0,", "10,nan,", "20,20,"], "line 3 of log.csv has no time and step"),
        (["0,0,", "10,-4,", "20,20,"], "line 3 of log.csv has no time and step"),
        (["0,0,", "0,10,", "0,20,"], "needs two rows at least"),
        (["10,0,", "5,10,", "20,20,"], "line 3 of log.csv is before the line above"),
        (["0,0,"], "needs two rows at least"),
    ],
)
def test_damaged_logs_are_named(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_progress_log(log(tmp_path / "log.csv", lines))


def test_a_site_twice_as_bad_fails_twice_as_often() -> None:
    one, two = (profile_of(RunSpec(steps=1, failures="llama3-2024", failure_scale=x)) for x in (1.0, 2.0))
    assert two.scale == 2 * one.scale and two.causes == one.causes
