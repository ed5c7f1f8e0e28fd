"""Plans under techniques: bounds stay below what is simulated, and the search equals brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.errors import BadInput, Infeasible
from windtunnel.planner.objectives import Goals
from windtunnel.planner.plan_one_cluster import branch_of
from windtunnel.planner.question import question_of
from windtunnel.planner.space.candidates import enumerate_candidates
from windtunnel.planner.space.technique_rewrites import Rewritten, effective
from windtunnel.program.segment import COMM, COMPUTE, Segment
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique
from windtunnel.techniques.limits import merged
from windtunnel.training.prepare_step import prepare
from windtunnel.training.simulate_step import memory_of, run

pytestmark = pytest.mark.property
SAMPLES = 5
BASE: dict[str, Any] = {
    "model": "gpt3-1.3b",
    "cluster": {"device": "a100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
    "training": {"seq_len": 2048, "global_batch": 32, "framework": "megatron_core"},
    "search": {"space": {"cp": [1], "zero": [1], "mbs": [1, 2], "vpp": [1, 2], "tp": [1, 2, 4], "pp": [1, 2, 4, 8]}},
}
MIXTURE: dict[str, Any] = {
    "model": "mistralai/Mixtral-8x7B-v0.1",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 64, "framework": "megatron_core"},
    "search": {
        "space": {
            "cp": [1],
            "zero": [1],
            "mbs": [1],
            "vpp": [1, 2],
            "pp": [1, 2, 4],
            "tp": [1, 2],
            "ep": [1, 4, 8],
        }
    },
}
SLOW = {"cluster": {"scale_out": {"nic_bytes_per_s": "10 Gb/s", "nics_per_node": 1}}}
SPACES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plan hook: zero": (BASE, {"techniques": [{"zero": {"stage": 3}}]}),
    "plan hook: order of a split backward": (BASE, {"techniques": ["zb-v"]}),
    "decide: order of axes": (BASE, {"techniques": ["pipette"], **SLOW}),
    "decide: size of an axis": (BASE, {"techniques": ["oneflow"]}),
    "decide: a size beyond the space": (BASE, {"techniques": [{"redco": {"mesh": 8}}]}),
    "plan hook: two sizes": (
        BASE,
        {
            "techniques": [{"pangu-alpha": {"operators": 2, "stages": 4, "rematerialise": "none"}}],
            "search": {"space": {"zero": [0, 1]}},
        },
    ),
    "plan hook: too few micro-batches": (
        BASE,
        {
            "techniques": ["megatron-3d"],
            "training": {"global_batch": 16},
            "search": {"space": {"mbs": [1, 2, 4]}},
        },
    ),
    "schedule: some stages without work": (
        BASE,
        {
            "techniques": ["skippipe"],
            "training": {"global_batch": 8},
            "search": {"space": {"mbs": [1, 2, 4]}},
        },
    ),
    "decide: ranks": (BASE, {"techniques": ["l-greco"], "search": {"space": {"zero": [0]}}, **SLOW}),
    "schedule: limits": (BASE, {"techniques": [{"zero-bubble": {"order": "zb_1p", "memory_limit": 0.5}}]}),
    "schedule: skipped parts": (BASE, {"techniques": ["skippipe"], "search": {"space": {"pp": [1, 4, 8]}}}),
    "schedule: gathers shared": (
        BASE,
        {"techniques": ["zeropp"], "training": {"framework": "torchtitan"}, "search": {"space": {"tp": [1, 2]}}},
    ),
    "gathers shared, in the plan": (
        BASE,
        {
            "training": {"framework": "torchtitan"},
            "plan": {"gather_per_block": True, "reshard_after_forward": True},
            "search": {"space": {"zero": [3], "tp": [1], "schedule": ["1f1b", "interleaved_1f1b", "gpipe"]}},
        },
    ),
    "two copies": (
        MIXTURE,
        {"search": {"space": {"schedule": ["1f1b", "dualpipe", "dualpipev"], "overlap_p2p": [True, False]}}},
    ),
    "two copies, by a technique": (MIXTURE, {"techniques": [{"dualpipe": {"copies": 2}}]}),
    "pair": (MIXTURE, {"techniques": ["beside"], "search": {"space": {"schedule": ["dualpipev", "1f1b"]}}}),
    "phases": (BASE, {"techniques": ["one-bit-adam"], "search": {"space": {"zero": [0]}}, **SLOW}),
    "phases, written": (
        BASE,
        {
            "techniques": ["powersgd", "zb-h1"],
            "search": {"space": {"zero": [0]}},
            **SLOW,
            "training": {
                "run": [
                    {"name": "start", "share": 0.3, "without": ["powersgd"]},
                    {
                        "name": "end",
                        "every": 10,
                        "without": ["powersgd", "zb-h1"],
                    },
                ]
            },
        },
    ),
}


def _beside(forward: Segment, backward: Segment, cluster: ClusterSpec, knobs: dict[str, Any]) -> Segment:
    """Both passes at once, each with half of the SMs and none the slower: what no machine can do better."""
    first = [replace(x, sm=0.5) if x.stream == COMPUTE else x for x in forward.launches]
    offset = len(first)
    second = [
        replace(
            x,
            after=[offset + d for d in x.after],
            sm=0.5 if x.stream == COMPUTE else x.sm,
            stream="compute:backward" if x.stream == COMPUTE else f"{COMM}:backward",
        )
        for x in backward.launches
    ]
    return Segment("pair", "F", [*first, *second])


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    paper = Paper("A paper", 2024, "https://example.org/a")
    REGISTRY.add(
        "beside",
        Technique(id="beside", family="test", summary="for a test", paper=paper, levels=("pair",), pair=_beside),
    )
    yield
    REGISTRY._entries.pop("beside")


def branch(name: str) -> Any:
    base, change = SPACES[name]
    question = question_of(Scenario.model_validate(merged(base, change)))
    return branch_of(question.variants[0], question.wanted, Goals.of(question.wanted))


def steps(case: Any, plan: Any) -> list[tuple[float, Any, Any]]:
    out = []
    for share, own in case.kinds_of_steps:
        step = prepare(own.model, own.cluster, own.training, plan, own.techniques)
        out.append((share, step, run(step)))
    return out


SLOWEST = ("two copies", "two copies, by a technique", "pair", "phases, written")


@pytest.mark.parametrize("name", SPACES)
def test_no_candidate_beats_its_bounds(name: str) -> None:
    of = branch(name)
    x, bounds = of.candidates, of.bounds
    cells = np.argwhere(x.legal & np.isfinite(bounds.time_s))
    assert len(cells) >= 5
    seen, close = 0, []
    for i, j in random.Random(3).sample(cells.tolist(), min(SAMPLES, len(cells))):
        try:
            ran = steps(of.case, x.plan(i, j))
        except BadInput:
            continue
        seen += 1
        seconds = sum(share * timeline.makespan_s for share, _, timeline in ran)
        assert bounds.time_s[i, j] <= seconds * (1 + 1e-9), x.plan(i, j)
        close.append(bounds.time_s[i, j] / seconds)
        reserved = max(memory_of(step, timeline).peak_reserved_bytes for _, step, timeline in ran)
        assert bounds.memory_bytes[i, j] <= reserved * (1 + 1e-9), x.plan(i, j)
    assert seen >= 3
    assert max(close) > (0.05 if "scale_out" in str(SPACES[name][1]) else 0.3), "a bound that rules nothing out"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOWEST else n for n in SPACES])
def test_the_search_is_brute_force(name: str) -> None:
    base, change = SPACES[name]
    found = api.plan(merged(base, change))
    assert found.proof.complete and found.proof.open == 0
    of = branch(name)
    capacity = of.case.cluster.device.memory_bytes
    best = np.inf
    for i, j in np.argwhere(of.candidates.legal).tolist():
        try:
            ran = steps(of.case, of.candidates.plan(i, j))
        except BadInput:
            continue
        seconds = sum(share * timeline.makespan_s for share, _, timeline in ran)
        if seconds < best and all(memory_of(s, t).peak_reserved_bytes <= capacity for _, s, t in ran):
            best = seconds
    assert found.proof.best_s == pytest.approx(best, rel=1e-12)
    assert found.best.step_time_s == pytest.approx(best, rel=1e-12)
    simulated = api.simulate_training(found.scenario, sensitivities=False)
    assert simulated.step_time_s == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("name", SPACES)
def test_candidates_that_become_the_same_count_once(name: str) -> None:
    of = branch(name)
    assert len(Rewritten.of(of.case, of.candidates).again) == 0
    techniques = of.case.techniques
    if any(t.technique.id == "zb-v" for t in techniques):
        assert any("another candidate" in rule for rule in of.candidates.excluded)


@pytest.mark.parametrize("technique", ["pipette", "oneflow", "redco", "l-greco"])
def test_a_decision_reads_no_more_than_it_says(technique: str) -> None:
    """Plans that are alike in what it reads are decided alike, whatever else they are."""
    change = {
        "techniques": [technique],
        "search": {
            "space": {
                "zero": [0, 1],
                "recompute": ["none", "full"],
                "order": [["tp", "cp", "ep", "dp", "pp"], ["tp", "cp", "ep", "pp", "dp"]],
            }
        },
        **SLOW,
    }
    question = question_of(Scenario.model_validate(merged(BASE, change)))
    case = question.variants[0].case
    plan, wanted = question.variants[0].scenario.plan, question.wanted
    x = enumerate_candidates(case.model, case.cluster, case.training, plan, wanted, case.behaviour)
    known: dict[Any, Any] = {}
    for i, j in random.Random(4).sample(np.argwhere(x.legal).tolist(), 40):
        assert effective(case, x.plan(i, j), known) == effective(case, x.plan(i, j))
    assert 0 < len(known) < 40


FEW = merged(
    BASE,
    {
        "training": {"global_batch": 16},
        "search": {"space": {"tp": [1, 4], "pp": [1, 2, 4], "recompute": ["none", "full"]}},
    },
)
REWRITING = tuple(t for t, one in REGISTRY.items() if one.plan or one.decide or one.schedule or one.run)


@pytest.mark.parametrize("name", REWRITING)
def test_every_technique_that_rewrites_plans_is_searched_or_says_why_not(name: str) -> None:
    """What counts as a candidate runs, no faster than its bound, with the sizes that it is written with."""
    try:
        question = question_of(Scenario.model_validate(merged(FEW, {"techniques": [name]})))
    except BadInput as error:
        assert name == "one-byte-zo", error
        return
    of = branch_of(question.variants[0], question.wanted, Goals.of(question.wanted))
    x, bounds = of.candidates, of.bounds
    assert x.count or any("cannot run" in rule or f"{name} sets" in rule for rule in x.excluded)
    cells = np.argwhere(x.legal).tolist()
    for i, j in random.Random(7).sample(cells, min(3, len(cells))):
        plan = x.plan(i, j)
        ran = steps(of.case, plan)
        resolved = ran[0][1].plan
        assert (resolved.tp, resolved.pp, resolved.cp) == (plan.tp, plan.pp, plan.cp)
        if np.isfinite(bounds.time_s[i, j]):
            assert bounds.time_s[i, j] <= sum(share * t.makespan_s for share, _, t in ran) * (1 + 1e-9)
        reserved = max(memory_of(step, timeline).peak_reserved_bytes for _, step, timeline in ran)
        assert bounds.memory_bytes[i, j] <= reserved * (1 + 1e-9)


def test_what_techniques_make_illegal_is_counted_with_the_reason() -> None:
    change = {"techniques": ["dualpipe"], "training": {"global_batch": 16}, "search": {"space": {"pp": [2, 4, 8]}}}
    found = api.plan(merged(BASE, change))
    (rule,) = [rule for rule in found.excluded if "cannot run" in rule]
    assert "dualpipev needs at least" in rule
    assert found.proof.refused == 0
    assert found.best.plan["schedule"] == "dualpipev"


def test_nothing_left_says_what_techniques_have_made_illegal() -> None:
    change = {"techniques": ["dualpipe"], "training": {"global_batch": 4}, "search": {"space": {"pp": [4, 8]}}}
    with pytest.raises(Infeasible, match=r"no legal plan .*cannot run, such as .*dualpipev needs at least"):
        api.plan(merged(BASE, change))


@pytest.mark.parametrize("space", [{"pp": [1, 2]}, {"tp": None, "pp": [1, 2]}, {"tp": [8], "pp": [1, 2]}])
def test_a_technique_sets_sizes_whatever_the_space_lists(space: dict[str, Any]) -> None:
    found = api.plan(merged(BASE, {"techniques": ["redco"], "search": {"space": space}}))
    plans = [r.plan for r in found.frontier]
    assert {p["tp"] for p in plans} == {8}
    assert all(8 * p["pp"] * p["dp"] == 16 for p in plans)
    assert found.best.plan["tp"] == 8
    assert found.scenario["plan"]["tp"] == 8
    told = [rule for rule in found.excluded if rule.startswith("redco sets tp 8")]
    assert len(told) == (space.get("tp", "listed") != [8])


def test_sizes_that_no_cluster_of_the_search_has() -> None:
    with pytest.raises(Infeasible, match=r"pangu-alpha sets tp 8 · pp 4.*divides the devices"):
        api.plan(merged(BASE, {"techniques": ["pangu-alpha"]}))


def test_a_technique_without_backward_passes_is_refused_at_once() -> None:
    with pytest.raises(BadInput, match=r"one-byte-zo: sets training\.gradients to zeroth_order, which is not searched"):
        api.plan(merged(BASE, {"techniques": ["one-byte-zo"]}))


def test_layers_are_not_balanced_where_the_partition_knows_no_stages() -> None:
    change = {"techniques": [{"dualpipe": {"copies": 2}}], "search": {"space": {"stage_layers": ["even", "balanced"]}}}
    question = question_of(Scenario.model_validate(merged(MIXTURE, change)))
    of = branch_of(question.variants[0], question.wanted, Goals.of(question.wanted))
    assert any("not balanced over copies" in rule for rule in of.candidates.excluded)
    assert of.candidates.count > 0


def test_layers_are_balanced_under_a_technique_that_only_chooses_a_schedule() -> None:
    change = {"techniques": ["zb-h1"], "search": {"space": {"stage_layers": ["balanced"], "pp": [4], "tp": [2]}}}
    found = api.plan(merged(BASE, change))
    assert found.proof.complete
    assert found.best.plan["schedule"] == "zb_h1"
    assert sum(found.best.plan["stage_layers"]) == 24


def test_phases_that_set_fields_are_not_searched() -> None:
    change = {"training": {"run": [{"name": "ramp", "share": 0.1, "set": {"training.global_batch": 16}}]}}
    with pytest.raises(BadInput, match="may only leave out techniques"):
        api.plan(merged(BASE, change))


def test_a_faster_network_reaches_every_phase() -> None:
    """Stability scales the cluster of phases too: with a free network their steps are those of a free network."""
    of = branch("phases")
    fast = of.case.cluster.model_copy(
        update={"scale_out": of.case.cluster.scale_out.model_copy(update={"nic_bytes_per_s": 1e15})}
    )
    i, j = np.argwhere(of.candidates.legal & (of.candidates.dp > 8)[:, None])[0].tolist()
    plan, case = of.candidates.plan(i, j), of.case.on(fast, anew=True)
    (_, _, after), (_, _, warm) = steps(case, plan)
    (_, _, slow_after), (_, _, slow_warm) = steps(of.case, plan)
    assert warm.makespan_s < 0.7 * slow_warm.makespan_s
    assert after.makespan_s < slow_after.makespan_s
