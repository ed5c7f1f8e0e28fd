"""Which plan to take, why the best is the best, how far it stays so: held against plain enumeration."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rich.console import Console

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.cost.framework_defaults import behaviour
from windtunnel.errors import BadInput
from windtunnel.planner.analysis.explain_best import LAYOUT, clusters
from windtunnel.planner.analysis.recommend import Simplicity, simplicity
from windtunnel.planner.analysis.stability import stability
from windtunnel.planner.objectives import Goals
from windtunnel.planner.plan_one_cluster import branch_of
from windtunnel.planner.question import question_of
from windtunnel.planner.result import Progress
from windtunnel.planner.search.branch_and_bound import Found, search
from windtunnel.planner.search.requery import FinishedSearch
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.training.explain.resource_scaling import RATES, scaled
from windtunnel.training.prepare_step import prepare
from windtunnel.training.simulate_step import memory_of, step_time
from windtunnel.views.plan import view
from windtunnel.writers.terminal import render

SCENARIO: dict[str, Any] = {
    "name": "small",
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 16, "framework": "nemo"},
    "search": {
        "limits": {"memory_fraction": 0.7},
        "space": {"tp": [1, 2, 4], "pp": [1, 2], "cp": [1], "vpp": [1, 2, 16], "mbs": [1, 2]},
    },
}


class Case:
    """A search, and every plan of its space simulated without it."""

    def __init__(self) -> None:
        self.scenario = Scenario.model_validate(SCENARIO)
        question = question_of(self.scenario)
        self.goals = Goals.of(question.wanted)
        self.branch = branch_of(question.variants[0], question.wanted, self.goals)
        self.found, self.proof = search([self.branch], self.goals)
        case, x = self.branch.case, self.branch.candidates
        self.all: list[tuple[PlanSpec, float, float]] = []
        for layout, policy in np.argwhere(x.legal).tolist():
            try:
                step = prepare(case.model, case.cluster, case.training, x.plan(layout, policy), case.techniques)
            except BadInput:
                continue
            self.all.append((x.plan(layout, policy), step_time(step), memory_of(step).peak_reserved_bytes))

    def fastest(self, capacity: float, **unlike: Any) -> tuple[PlanSpec, float, float]:
        """The fastest of all that fit, of those that differ from `unlike` in some axis."""
        able = [
            row
            for row in self.all
            if row[2] <= capacity and (not unlike or any(getattr(row[0], k) != v for k, v in unlike.items()))
        ]
        return min(able, key=lambda row: row[1])


def text_of(result: Any, width: int) -> str:
    console = Console(width=width, record=True, highlight=False, file=io.StringIO())
    console.print(render(view(result)))
    return console.export_text()


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


@pytest.fixture(scope="module")
def result() -> Any:
    return api.plan(SCENARIO, explain=True)


def test_the_runner_up_is_the_best_other_layout(case: Case, result: Any) -> None:
    room = 0.7 * case.branch.setting.memory_bytes
    best = case.fastest(room)
    assert result.best.step_time_s == best[1]
    second = case.fastest(room, **{n: getattr(best[0], n) for n in LAYOUT})
    assert result.why.runner_up.step_time_s == second[1]
    assert result.why.runner_up_plan["tp"] == second[0].tp
    assert sum(result.why.seconds_by_class.values()) == pytest.approx(second[1] - best[1])


def test_limits_cost_what_lifting_them_brings(case: Case, result: Any) -> None:
    costs = {x.name: x for x in result.why.limits}
    best = result.best.step_time_s
    for name, room in (("memory_fraction", case.branch.setting.memory_bytes), ("device memory", np.inf)):
        assert costs[name].gain == pytest.approx(1 - case.fastest(room)[1] / best)
    assert costs["device memory"].gain > 0.02 and costs["device memory"].needs > case.branch.setting.memory_bytes


def test_every_cell_bounds_its_plans_and_names_a_real_one(case: Case, result: Any) -> None:
    room = 0.7 * case.branch.setting.memory_bytes
    for cell in result.why.cells:
        inside = [s for plan, s, size in case.all if (plan.tp, plan.pp) == (cell.tp, cell.pp) and size <= room]
        assert cell.bound_s <= min(inside, default=np.inf)
        assert cell.simulated_s is None or cell.simulated_s in inside
    by = result.why.best_by("tp")
    assert min(c.shown_s for c in by.values()) == result.best.step_time_s


def test_no_plan_is_below_the_floors(case: Case, result: Any) -> None:
    bound_front = result.why.bound_front
    assert list(bound_front.time_s) == sorted(bound_front.time_s) and list(bound_front.memory_bytes)[::-1] == sorted(
        bound_front.memory_bytes
    )
    for _, seconds, size in case.all:
        faster = [m for t, m in zip(bound_front.time_s, bound_front.memory_bytes, strict=True) if t <= seconds]
        assert faster and min(faster) <= size * (1 + 1e-9)


def test_the_order_of_simplicity() -> None:
    how = behaviour("nemo")
    plain = simplicity(PlanSpec(tp=2), how)
    assert plain == Simplicity(1, 0, 1, 0, 2)
    harder = [
        {"tp": 2, "pp": 2},
        {"tp": 2, "recompute": {"policy": "full"}},
        {"tp": 2, "offload": {"optimizer": 1.0}},
        {"tp": 2, "sp": not how.sp},
        {"tp": 4},
        {"tp": 2, "overlap": {"grad_reduce": not how.overlap_grad_reduce}},
    ]
    for fields in harder:
        assert simplicity(PlanSpec.model_validate(fields), how) > plain
    same = PlanSpec.model_validate({"tp": 2, "sp": how.sp, "overlap": {"grad_reduce": how.overlap_grad_reduce}})
    assert simplicity(same, how) == plain
    assert simplicity(PlanSpec(tp=8), how) < simplicity(PlanSpec(tp=2, pp=2), how)  # kinds come first


def test_what_is_recommended_is_simpler_and_cannot_be_told_apart() -> None:
    result = api.plan(SCENARIO, overrides=("search.space.vpp=[1,2,4,8,16]", "search.space.pp=[2]"))
    choice, how = result.choice, behaviour("nemo")
    assert choice is not None and not choice.same and choice.paired is not None and not choice.paired.told_apart
    taken, fastest = (PlanSpec.model_validate(s["plan"]) for s in (choice.scenario, result.scenario))
    assert simplicity(taken, how) < simplicity(fastest, how)
    assert choice.step_time_s >= result.best.step_time_s == result.proof.best_s
    assert 0.0 <= (choice.probability_fastest_faster or 0.0) <= 1.0
    assert api.simulate_training(choice.scenario).memory_fits
    assert api.plan({**SCENARIO, "search": {"objective": "devices"}}).choice is None


@pytest.mark.slow
def test_brackets_of_stability_are_exact() -> None:
    """At both ends of a bracket, a search on a scenario with that cluster agrees."""
    small = {
        **SCENARIO,
        "search": {"space": {"tp": [1, 2, 4], "pp": [1, 2], "vpp": [1], "cp": [1], "mbs": [1], "recompute": ["none"]}},
    }
    question = question_of(Scenario.model_validate(small))
    goals = Goals.of(question.wanted)
    branch = branch_of(question.variants[0], question.wanted, goals)
    found, _ = search([branch], goals)
    assert found.best is not None
    finished = FinishedSearch.of([branch], goals, found)
    told = stability(finished, found.best, resources=("scale-up bandwidth", "device memory"))
    layout = {n: told.layout[n] for n in LAYOUT}
    assert [r.name for r in told.resources] == ["scale-up bandwidth", "device memory"]
    lost = 0
    for resource in told.resources:
        for edge in (resource.below, resource.above):
            assert edge.lost_at is None or max(edge.lost_at / edge.holds_at, edge.holds_at / edge.lost_at) < 1.06
            for scale, holds in ((edge.holds_at, True), (edge.lost_at, False)):
                if scale is not None and (holds or edge.winner):
                    cluster = scaled(branch.case.cluster, resource.name, scale)
                    parts = {"device": cluster.device, "scale_up": cluster.scale_up}
                    plain = {name: part.model_dump(mode="json") for name, part in parts.items()}
                    other = api.plan({**small, "cluster": plain})
                    assert ({n: other.best.plan[n] for n in LAYOUT} == layout) is holds
                    lost += not holds
    assert lost


def test_an_interrupted_search_keeps_its_best_plan() -> None:
    def interrupt(p: Progress) -> None:
        if p.best is not None and p.simulated:
            raise KeyboardInterrupt

    overrides = ("search.space.vpp=[1,2,4,8,16]", "search.space.pp=[2]")
    result = api.plan(SCENARIO, overrides=overrides, explain=True, stable=True, report=interrupt)
    assert not result.proof.complete and result.proof.gap > 0 and result.proof.open and result.why is None
    assert result.best.step_time_s * (1 - result.proof.gap) <= api.plan(SCENARIO, overrides=overrides).best.step_time_s
    text = text_of(result, 80)
    assert "Stopped: this is the best so far; a plan up to" in text and "nothing in the space" not in text


def test_interrupting_what_follows_keeps_the_proof() -> None:
    def interrupt(p: Progress) -> None:
        if p.doing:
            raise KeyboardInterrupt

    result = api.plan(SCENARIO, explain=True, report=interrupt)
    assert result.proof.complete and result.why is None and result.choice is not None


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_summary_fits_the_terminal(result: Any, width: int) -> None:
    text = text_of(result, width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    flat = " ".join(text.split())
    titles = ("Fastest as simulated", "Recommended", "Why not another layout", "What limits cost", "the same in all")
    for words in titles:
        assert words in flat
    assert "nothing in the space is faster" in flat and "…" not in text


def test_json_and_files_carry_the_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, best = tmp_path / "s.yaml", tmp_path / "best.yaml"
    path.write_text(yaml.safe_dump({**SCENARIO, "search": {"space": {"tp": [2], "pp": [2], "vpp": [1, 2, 16]}}}))
    assert run(["plan", str(path), "--json", "--simpler", "--output", str(best)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["why"]["limits"] and data["recommended"]["scenario"]["plan"] == yaml.safe_load(best.read_text())["plan"]
    assert run(["plan", str(path), "--json", "--no-why"]) == 0
    assert json.loads(capsys.readouterr().out)["why"] is None


def test_resources_scale_one_figure_each() -> None:
    cluster = prepare_cluster()
    for name in (*RATES, "device memory"):
        twice = scaled(cluster, name, 2.0)
        changed = [n for n in type(cluster).model_fields if getattr(twice, n) != getattr(cluster, n)]
        assert changed in (["device"], ["scale_up"], ["scale_out"])


def prepare_cluster() -> Any:
    from windtunnel import catalog

    return catalog.resolve_cluster(Scenario.model_validate(SCENARIO).cluster)


def test_asking_again_without_a_search_finds_the_same(case: Case) -> None:
    finished = FinishedSearch.of([case.branch], case.goals, Found())
    best = finished.best()
    assert best is not None and case.found.best is not None and best.plan == case.found.best.plan


def test_a_space_of_one_layout_has_no_runner_up() -> None:
    result = api.plan({**SCENARIO, "search": {"space": {"tp": [4], "pp": [1], "cp": [1]}}}, explain=True)
    assert result.why is not None and result.why.runner_up is None and result.why.cells
    assert "Why not another layout" not in text_of(result, 80)


def test_the_runner_up_is_on_the_best_plans_cluster() -> None:
    space = {"tp": [1, 2, 4], "pp": [1, 2], "cp": [1], "device": ["a100-sxm-80gb", "h100-sxm-80gb"]}
    one, both = (
        api.plan({**SCENARIO, "search": {"space": s}}, explain=True)
        for s in ({k: v for k, v in space.items() if k != "device"}, space)
    )
    assert one.why is not None and both.why is not None and both.why.runner_up is not None
    assert both.why.runner_up.step_time_s == one.why.runner_up.step_time_s  # type: ignore[union-attr]
    best = {c.device: c for c in both.why.clusters}
    assert best["h100-sxm-80gb"].simulated == both.best.step_time_s
    assert best["a100-sxm-80gb"].bound > both.best.step_time_s and best["a100-sxm-80gb"].simulated is None


def test_clusters_that_break_a_limit_are_no_candidates() -> None:
    search_for = {**SCENARIO["search"], "space": {**SCENARIO["search"]["space"], "nodes": [1, 2, 4]}}
    search_for |= {"objective": "devices", "tokens": 2e11, "limits": {"time_to_tokens": "12 d"}}
    question = question_of(Scenario.model_validate({**SCENARIO, "search": search_for}))
    goals = Goals.of(question.wanted)
    branches = [branch_of(v, question.wanted, goals) for v in question.variants]
    found, _ = search(branches, goals)
    assert [c.nodes for c in clusters(FinishedSearch.of(branches, goals, found))] == [4]


def test_large_spaces_are_explained_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {**SCENARIO, "search": {"space": {"tp": [4], "pp": [1, 2], "cp": [1]}}}
    assert api.plan(small, explain=None).why is not None
    monkeypatch.setattr("windtunnel.planner.plan_one_cluster.EXPLAINED", 1)
    assert api.plan(small, explain=None).why is None and api.plan(small, explain=True).why is not None
