"""Large spaces: bounds in parts lose no plan, an end in time says its gap, and what the default space holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.planner import plan_one_cluster
from windtunnel.planner.bounds import quick_floor
from windtunnel.planner.objectives import Goals
from windtunnel.planner.plan_one_cluster import branch_of
from windtunnel.planner.question import question_of
from windtunnel.specs.scenario import Scenario
from windtunnel.views.plan import margin_words

_MOE: dict[str, Any] = {
    "model": "Qwen/Qwen3-30B-A3B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4},
    "training": {"seq_len": 4096, "global_batch": 256},
}
_SPACE = {"tp": [1, 2], "pp": [1, 2, 4], "vpp": [1, 2], "cp": [1], "ep": [4, 8], "etp": [1], "mbs": [1, 2]}
_LARGE: dict[str, Any] = {
    "model": "deepseek-ai/DeepSeek-V3",
    "cluster": {"device": "h800-sxm-80gb", "nodes": 256},
    "training": {"seq_len": 4096, "global_batch": 15360, "precision": "fp8_block"},
}

_UNKNOWN = {"framework": "generic"}
"""Software of which nothing is known that it cannot run; Megatron has no paired schedule."""


def _with(scenario: dict[str, Any], limits: dict[str, Any] | None = None, **space: Any) -> dict[str, Any]:
    return {**scenario, "search": {"space": {**_SPACE, **space}, **({"limits": limits} if limits else {})}}


def test_parts_find_the_plan_of_the_whole_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same best plan, proved, whether all candidates get their bounds at once or in parts."""
    whole = api.plan(_with(_MOE))
    monkeypatch.setattr(quick_floor, "LARGE", 10)
    monkeypatch.setattr(plan_one_cluster, "SEARCH_S", float("inf"))
    parts = api.plan(_with(_MOE))
    assert parts.best.step_time_s == whole.best.step_time_s
    assert parts.proof.complete and parts.proof.gap == 0.0 and parts.proof.candidates == whole.proof.candidates


def test_an_end_in_time_says_how_much_better_a_plan_could_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every candidate is in one count of the proof; the gap reaches down to the best plan of the whole space."""
    whole = api.plan(_with(_MOE))
    monkeypatch.setattr(quick_floor, "LARGE", 10)
    monkeypatch.setattr(plan_one_cluster, "SEARCH_S", 1e-3)
    found = api.plan(_with(_MOE))
    proof = found.proof
    assert not proof.complete and proof.open > 0 and 0 < proof.gap < 1
    assert (1 - proof.gap) * proof.best <= whole.best.step_time_s <= found.best.step_time_s
    counted = proof.pruned_by_memory + proof.pruned_by_bound + proof.simulated + proof.refused + proof.open
    assert counted + sum(proof.pruned_by_limit.values()) == proof.candidates and proof.pruned_by_bound >= 0


@pytest.mark.parametrize(
    "scenario", [_LARGE, {**_LARGE, "model": "Qwen/Qwen3-235B-A22B"}], ids=["DeepSeek-V3", "Qwen3-235B"]
)
@pytest.mark.slow
def test_quick_bounds_are_below_those_of_blocks(scenario: dict[str, Any]) -> None:
    """Parts drawn from the default space: neither seconds nor bytes exceed the bounds that blocks have."""
    question = question_of(Scenario.model_validate(scenario))
    branch = branch_of(question.variants[0], question.wanted, Goals.of(question.wanted))
    screening = branch.screening
    bounds = screening.bounds
    parts = screening.parts_left()
    assert len(parts) > 100
    chosen = [parts[-1], *(parts[i] for i in np.random.default_rng(7).integers(0, len(parts), 2))]
    for part in chosen:
        time_s, memory = bounds.time_s[part.rows].copy(), bounds.memory_bytes[part.rows].copy()
        screening.refine(part)
        known = np.isfinite(bounds.memory_bytes[part.rows])
        assert (time_s <= bounds.time_s[part.rows] * (1 + 1e-9)).all()
        assert (memory <= bounds.memory_bytes[part.rows] * (1 + 1e-9))[known].all()


def test_models_with_experts_search_paired_schedules_and_overlap() -> None:
    """The default is never worse than 1F1B and interleaving alone; Megatron and dense models keep to these."""
    wide = api.plan(_with(_MOE))
    plain = api.plan(_with(_MOE, overlap_moe_a2a=[False], stage_layers=["even"]))
    assert wide.best.step_time_s <= plain.best.step_time_s
    question = question_of(Scenario.model_validate(_with(_MOE)))
    policies = branch_of(question.variants[0], question.wanted, Goals.of(question.wanted)).candidates.policies
    assert {p.schedule for p in policies} == {None} and {p.overlap.moe_a2a for p in policies} == {None, True}
    paired = question_of(Scenario.model_validate(_with({**_MOE, "training": {**_MOE["training"], **_UNKNOWN}})))
    policies_of_any = branch_of(paired.variants[0], paired.wanted, Goals.of(paired.wanted)).candidates.policies
    assert {p.schedule for p in policies_of_any} == {None, "dualpipev"}
    assert {p.recompute.modules for p in policies if p.recompute.policy == "modules"} == {("norm", "moe_act")}
    dense = question_of(Scenario.model_validate({**_MOE, "model": "meta-llama/Llama-3.1-8B"}))
    alone = branch_of(dense.variants[0], dense.wanted, Goals.of(dense.wanted)).candidates.policies
    assert {(p.schedule, p.overlap.moe_a2a) for p in alone} == {(None, None)}


def test_layers_that_do_not_divide_run_in_a_v() -> None:
    """DeepSeek-V3 (Liu et al. 2024, section 3.2.1): 61 layers over 16 stages in two chunks each."""
    space = {"tp": [1], "pp": [16], "cp": [1], "ep": [64], "mbs": [1], "recompute": ["full"]}
    training = {**_LARGE["training"], **_UNKNOWN}
    question = question_of(Scenario.model_validate({**_LARGE, "training": training, "search": {"space": space}}))
    x = branch_of(question.variants[0], question.wanted, Goals.of(question.wanted)).candidates
    cells = [(int(x.vpp[i]), x.policies[j].schedule) for i, j in np.argwhere(x.legal)]
    assert set(cells) == {(1, None), (2, "dualpipev")}


def test_five_per_cent_of_memory_stay_free_and_cost_what_is_said() -> None:
    """The best plan without the margin is the one that the whole memory allows."""
    found = api.plan(_with(_MOE), explain=True)
    capacity = found.best.memory.capacity_bytes
    assert found.best.peak_memory_reserved_bytes <= 0.95 * capacity
    whole = api.plan(_with(_MOE, {"memory_fraction": 1.0}))
    assert found.why is not None
    cost = next(x for x in found.why.limits if x.name == "memory_fraction")
    assert cost.gain == pytest.approx(1 - whole.best.step_time_s / found.best.step_time_s, abs=1e-9)


def test_time_up_leaves_out_the_report_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on the wall ends the search and what follows it; what the margin costs is said of what was simulated."""
    monkeypatch.setattr(quick_floor, "LARGE", 10)
    monkeypatch.setattr(plan_one_cluster, "SEARCH_SHARE", 1e-9)
    found = api.plan(_with(_MOE), explain=True, time_limit_s=60.0)
    assert found.why is None and found.left_out == plan_one_cluster.UNSEEN and not found.proof.complete
    monkeypatch.setattr(plan_one_cluster, "SEARCH_SHARE", 1e9)
    monkeypatch.setattr(plan_one_cluster, "ANSWER_SHARE", 1e-9)
    late = api.plan(_with(_MOE), explain=True, time_limit_s=60.0)
    assert late.proof.complete and late.why is None and late.left_out == plan_one_cluster.TIME_UP
    words = margin_words(late)
    assert words is not None and "5 % of memory stay free" in words and "cost" in words
    assert margin_words(api.plan(_with(_MOE, {"memory_fraction": 1.0}))) is None
