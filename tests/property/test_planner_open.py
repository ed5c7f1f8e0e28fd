"""Candidates whose split and recomputation the partition chooses: bounds, brute force, and never worse than even."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.planner.bounds.open_candidates import OpenCandidates
from windtunnel.planner.bounds.screen import Screener
from windtunnel.planner.case import Case
from windtunnel.planner.plan_one_cluster import case_of
from windtunnel.planner.search.close_open_plan import ClosedPlans, reserved_by_stage
from windtunnel.planner.space.candidates import Candidates, enumerate_candidates
from windtunnel.specs.scenario import Scenario
from windtunnel.training.prepare_step import prepare
from windtunnel.training.simulate_step import memory_of, step_time
from windtunnel.training.step_setup import StepRequest, resolve_step

pytestmark = pytest.mark.property
H100: dict[str, Any] = {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
SPACES: dict[str, dict[str, Any]] = {
    "dense, large vocabulary": {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "megatron_core"},
        "search": {
            "space": {
                "cp": [1, 2],
                "zero": [1],
                "vpp": [1],
                "stage_layers": ["even", "balanced"],
                "recompute": ["none", "balanced", "balanced:selective", "full:2"],
            }
        },
    },
    "blocking hops and reductions": {
        "model": "gpt3-6.7b",
        "cluster": {"device": "a100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": 64, "framework": "megatron_2022"},
        "search": {
            "space": {
                "cp": [1],
                "zero": [0, 1],
                "overlap_grad_reduce": [True, False],
                "overlap_p2p": [True, False],
                "vpp": [1],
                "stage_layers": ["balanced"],
                "recompute": ["none", "balanced"],
            }
        },
    },
    "sharded": {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "torchtitan"},
        "search": {
            "space": {
                "zero": [2, 3],
                "cp": [1],
                "vpp": [1],
                "stage_layers": ["balanced"],
                "recompute": ["none", "balanced"],
            }
        },
    },
    "mixture": {
        "model": "mistralai/Mixtral-8x7B-v0.1",
        "cluster": H100,
        "training": {"seq_len": 4096, "global_batch": 64, "framework": "megatron_bridge"},
        "search": {
            "space": {
                "cp": [1],
                "zero": [1],
                "vpp": [1],
                "stage_layers": ["balanced"],
                "recompute": ["none", "balanced"],
            }
        },
    },
    "other schedules": {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": H100,
        "training": {"seq_len": 4096, "global_batch": 32, "framework": "megatron_core"},
        "search": {
            "space": {
                "cp": [1],
                "zero": [1],
                "vpp": [1],
                "schedule": ["gpipe", "zb_h1", "zb_1p"],
                "pp": [2, 4, 8],
                "stage_layers": ["balanced"],
                "recompute": ["none", "balanced"],
            }
        },
    },
    "virtual stages": {
        "model": "deepseek-ai/DeepSeek-V2-Lite",
        "cluster": H100,
        "training": {"seq_len": 4096, "global_batch": 64, "framework": "megatron_core"},
        "search": {
            "space": {
                "cp": [1],
                "zero": [1],
                "pp": [2, 4],
                "vpp": [2, 3],
                "stage_layers": ["even", "balanced"],
                "recompute": ["none", "balanced"],
            }
        },
    },
}


def space(data: dict[str, Any]) -> tuple[Case, Candidates]:
    scenario = Scenario.model_validate(data)
    case, wanted = case_of(scenario)
    return case, enumerate_candidates(case.model, case.cluster, case.training, scenario.plan, wanted, case.behaviour)


@pytest.mark.parametrize("name", SPACES)
def test_no_open_candidate_beats_its_bounds(name: str) -> None:
    case, x = space(SPACES[name])
    room = case.cluster.device.memory_bytes
    bounds = Screener(case, room).bounds(x)
    concrete = ClosedPlans(OpenCandidates(case, x, room))
    is_open = np.array([q.is_open for q in x.policies])
    few = (x.m * x.pp * x.vpp < 600)[:, None]
    cells = np.argwhere(x.legal & np.isfinite(bounds.time_s) & is_open & few)
    assert len(cells) > 50
    seen = 0
    for i, j in random.Random(7).sample(cells.tolist(), 8):
        plan = concrete.plan(i, j)
        try:
            step = prepare(case.model, case.cluster, case.training, plan, case.techniques)
        except BadInput:
            continue
        seen += 1
        assert bounds.time_s[i, j] <= step_time(step) * (1 + 1e-9), plan
        assert bounds.memory_bytes[i, j] <= memory_of(step).peak_reserved_bytes * (1 + 1e-9), plan
    assert seen > 5


SMALL: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {**H100, "nodes": 1},
    "training": {"seq_len": 8192, "global_batch": 16, "framework": "nemo"},
    "search": {
        "space": {
            "tp": [1, 2],
            "pp": [2, 4],
            "cp": [1],
            "vpp": [1],
            "mbs": [1, 2],
            "stage_layers": ["even", "balanced", [7, 9, 9, 7]],
            "recompute": ["full", "balanced"],
        }
    },
}


def test_the_search_equals_brute_force() -> None:
    case, x = space(SMALL)
    room = case.cluster.device.memory_bytes
    concrete = ClosedPlans(OpenCandidates(case, x, room))
    times: dict[tuple[int, ...], dict[tuple[Any, bool], float]] = {}
    best = np.inf
    for i, j in np.argwhere(x.legal).tolist():
        q = x.policies[j]
        plan = concrete.plan(i, j)
        step = prepare(case.model, case.cluster, case.training, plan)
        if isinstance(q.stage_layers, tuple):
            assert plan.stage_layers == step.plan.stage_layers == q.stage_layers
        if memory_of(step).peak_reserved_bytes <= room:
            seconds = step_time(step)
            best = min(best, seconds)
            times.setdefault((i,), {})[q.stage_layers, q.balanced_recompute] = seconds
    found = api.plan(SMALL)
    assert found.proof.complete and found.proof.best_s == best
    assert found.proof.simulated < x.count
    assert api.simulate_training(found.scenario, sensitivities=False).step_time_s == best
    compared = 0
    for by in times.values():
        for recomputed in (False, True):
            if ("even", recomputed) in by and ("balanced", recomputed) in by:  # where even fits, balanced is no slower
                compared += 1
                assert by["balanced", recomputed] <= by["even", recomputed] * (1 + 1e-9)
        if ("even", False) in by:  # recomputing all layers also fits with fewer
            assert by["even", True] <= by["even", False] * (1 + 1e-9)
    assert compared >= 4


def test_recomputes_no_more_than_memory_asks_for() -> None:
    data = {
        **SMALL,
        "search": {
            "space": {
                "tp": [1],
                "pp": [4],
                "cp": [1],
                "vpp": [1],
                "mbs": [2],
                "stage_layers": ["even"],
                "recompute": ["balanced"],
            }
        },
    }
    case, x = space(data)
    room = case.cluster.device.memory_bytes
    balance = OpenCandidates(case, x, room)
    plan = ClosedPlans(balance).plan(0, 0)
    counts = plan.recompute.num_layers
    assert isinstance(counts, tuple) and counts[0] > counts[-1]

    def held(changed: tuple[int, ...]) -> np.ndarray:
        how = plan.recompute.model_copy(update={"num_layers": changed})
        changed_plan = plan.model_copy(update={"recompute": how})
        step = resolve_step(
            StepRequest(model=case.model, cluster=case.cluster, training=case.training, plan=changed_plan)
        )
        return np.array(reserved_by_stage(case, step, range(4)))

    assert (held(counts) <= room).all()
    less = held(tuple(max(c - 1, 0) for c in counts))
    assert all(less[s] > room for s in range(4) if counts[s])


def test_virtual_stages_that_do_not_divide() -> None:
    data = {
        **SMALL,
        "search": {
            "space": {
                "tp": [2],
                "pp": [2],
                "cp": [1],
                "vpp": [3],
                "mbs": [1],
                "stage_layers": ["even", "balanced"],
                "recompute": ["balanced"],
            }
        },
    }
    found = api.plan(data)  # 32 layers over 6 virtual stages: no even split is legal
    layers, counts = found.best.plan["stage_layers"], found.best.plan["recompute"]["num_layers"]
    assert len(layers) == 6 and sum(layers) == 32 and set(layers) == {5, 6}
    assert layers[-1] == 5  # with the head
    assert counts is None or len(counts) == 2
    assert found.proof.candidates == 1


def test_head_room_is_kept_free() -> None:
    data = {
        **SMALL,
        "search": {
            "space": {
                "tp": [1],
                "pp": [4],
                "cp": [1],
                "vpp": [1],
                "mbs": [2],
                "stage_layers": ["even"],
                "recompute": ["balanced"],
            }
        },
    }
    plain = api.plan(data)
    spare = api.plan(data, overrides=("search.limits.memory_headroom=12GiB",))
    room = spare.best.memory.capacity_bytes - spare.best.peak_memory_reserved_bytes
    assert room >= 12 * 2**30 > plain.best.memory.capacity_bytes - plain.best.peak_memory_reserved_bytes
    assert spare.best.step_time_s > plain.best.step_time_s


def test_a_split_belongs_to_its_number_of_virtual_stages() -> None:
    _, x = space(SMALL)
    for j, q in enumerate(x.policies):
        if isinstance(q.stage_layers, tuple):
            assert x.legal[:, j].any() and (x.pp * x.vpp)[x.legal[:, j]].tolist() == [4] * int(x.legal[:, j].sum())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("search.space.stage_layers=[[7,9,9,8]]", "must sum to the 32 layers"),
        ("search.space.stage_layers=[odd]", "odd: must be even, balanced, or layers of each virtual stage"),
        ("search.space.stage_layers=[[7,-9,9,8]]", "none negative"),
        ("search.space.recompute=['balanced:some']", "balanced:selective"),
        ("plan.recompute.num_layers=[1,-1]", "by stage or virtual stage, none negative"),
    ],
)
def test_what_is_no_split_is_said(setting: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        api.plan(SMALL, overrides=(setting,))


def test_written_out_counts_belong_to_their_number_of_stages() -> None:
    plan = {"recompute": {"policy": "full", "num_layers": [3, 1]}, "vpp": 1, "zero": 1}
    found = api.plan({**SMALL, "plan": plan, "search": {"space": {"cp": [1], "stage_layers": ["even", "balanced"]}}})
    assert found.best.plan["pp"] == 2 and found.best.plan["stage_layers"] == [16, 16]
    assert any("recomputed layers are counted" in rule for rule in found.excluded)
