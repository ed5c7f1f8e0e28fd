"""Screen ≤ simulation for every candidate, and the search equals brute force where one can afford it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.planner.plan import case_of
from windtunnel.planner.screen import Bounds, Case, Screener
from windtunnel.planner.search import Found, Proof, search
from windtunnel.planner.space import Candidates, candidates
from windtunnel.specs.scenario import Scenario
from windtunnel.training.simulate import memory_of, prepare, step_time

pytestmark = pytest.mark.property
A100: dict[str, Any] = {"device": "a100-sxm-80gb", "nodes": 4, "devices_per_node": 8}
H100: dict[str, Any] = {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
SPACES: dict[str, dict[str, Any]] = {
    "dense, Megatron of 2022": {
        "model": "gpt3-6.7b", "cluster": A100,
        "training": {"seq_len": 2048, "global_batch": 64, "framework": "megatron_2022"},
        "search": {"space": {
            "cp": [1], "sp": [True, False], "zero": [0, 1], "overlap_grad_reduce": [True, False],
            "recompute": ["none", "selective", "full", "full:2"],
        }},
    },
    "dense, Megatron-Core": {
        "model": "meta-llama/Llama-3.1-8B", "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "megatron_core"},
        "search": {"space": {
            "zero": [1], "overlap_tp": [True, False], "overlap_p2p": [True, False],
            "cp_kind": ["ring", "all_to_all"], "offload_optimizer": [0.0, 1.0],
        }},
    },
    "sharded": {
        "model": "meta-llama/Llama-3.1-8B", "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "torchtitan"},
        "search": {"space": {"zero": [2, 3], "recompute": ["none", "full"], "cp": [1, 2, 4]}},
    },
    "mixture": {
        "model": "mistralai/Mixtral-8x7B-v0.1", "cluster": H100,
        "training": {"seq_len": 4096, "global_batch": 64, "framework": "megatron_bridge"},
        "search": {"space": {"cp": [1], "zero": [1], "overlap_moe_a2a": [True, False]}},
    },
    "split backward": {
        "model": "meta-llama/Llama-3.1-8B", "cluster": H100,
        "training": {"seq_len": 4096, "global_batch": 32, "framework": "megatron_core"},
        "search": {"space": {
            "cp": [1], "zero": [1], "schedule": ["1f1b", "gpipe", "zb_h1", "zb_v"], "pp": [2, 4], "vpp": [1, 2],
        }},
    },
    "offloading": {
        "model": "gpt3-6.7b", "cluster": A100,
        "training": {"seq_len": 2048, "global_batch": 64, "framework": "megatron_2022"},
        "search": {"space": {
            "cp": [1], "sp": [True], "zero": [0, 1], "overlap_p2p": [True, False], "recompute": ["none", "full"],
            "offload_activations": [0.5, 1.0], "offload_params": [0.0, 1.0],
        }},
    },
    "offloading, sharded": {
        "model": "meta-llama/Llama-3.1-8B", "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "torchtitan"},
        "search": {"space": {
            "zero": [3], "cp": [1, 2], "recompute": ["none", "full"], "schedule": ["1f1b", "gpipe", "zb_h1"],
            "vpp": [1], "offload_activations": [0.0, 1.0], "offload_params": [0.0, 0.5],
        }},
    },
    "uneven stages": {
        "model": "meta-llama/Llama-3.1-8B", "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "nemo"},
        "plan": {"pp": 4, "vpp": 1, "stage_layers": [5, 9, 9, 9]}, "search": {"space": {"zero": [1]}},
    },
    "pipeline inside": {
        "model": "meta-llama/Llama-3.1-8B", "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "nemo"},
        "search": {"space": {
            "zero": [1], "order": [["tp", "cp", "ep", "dp", "pp"], ["tp", "cp", "ep", "pp", "dp"]],
        }},
    },
}  # fmt: skip


def space(name: str) -> tuple[Case, Candidates]:
    scenario = Scenario.model_validate(SPACES[name])
    case, wanted = case_of(scenario, None)
    return case, candidates(case.model, case.cluster, case.training, scenario.plan, wanted, case.behaviour)


@pytest.mark.parametrize("name", SPACES)
def test_no_candidate_beats_its_bounds(name: str) -> None:
    case, x = space(name)
    bounds = Screener(case).bounds(x)
    cells = np.argwhere(x.legal & np.isfinite(bounds.time_s))
    assert len(cells) > 30
    seen = 0
    for i, j in random.Random(5).sample(cells.tolist(), 30):
        try:
            step = prepare(case.model, case.cluster, case.training, x.plan(i, j), case.techniques)
        except BadInput:
            continue
        if step.plan.m * step.plan.pp * step.plan.vpp > 4000:
            continue
        seen += 1
        assert bounds.time_s[i, j] <= step_time(step) * (1 + 1e-9), x.plan(i, j)
        assert bounds.memory_bytes[i, j] <= memory_of(step).peak_reserved_bytes * (1 + 1e-9), x.plan(i, j)
    assert seen >= 20


def verified(case: Case, x: Candidates, bounds: Bounds, found: Found, proof: Proof) -> bool:
    """The proof, checked without the search: every candidate is simulated, or a bound rules it out."""
    capacity = case.cluster.device.memory_bytes
    done = {(e.layout, e.policy): e for e in found.evaluated}
    for i, j in np.argwhere(x.legal).tolist():
        if bounds.memory_bytes[i, j] > capacity or bounds.time_s[i, j] >= proof.best_s:
            continue
        entry = done.get((i, j))
        if entry is None:
            return any(plan == x.plan(i, j) for plan, _ in found.refused)
        if entry.fits and entry.step_time_s < proof.best_s:
            return False
    counted = proof.pruned_by_memory + proof.pruned_by_bound + proof.simulated + proof.refused
    return counted == proof.candidates == int(x.legal.sum())


SMALL: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B", "cluster": {**H100, "nodes": 1},
    "training": {"seq_len": 8192, "global_batch": 16, "framework": "nemo"},
    "search": {"space": {
        "tp": [1, 2, 4], "pp": [1, 2, 4], "cp": [1, 2], "vpp": [1, 2], "mbs": [1, 2], "recompute": ["none", "full"],
    }},
}  # fmt: skip


def test_the_search_equals_brute_force() -> None:
    scenario = Scenario.model_validate(SMALL)
    case, wanted = case_of(scenario, None)
    x = candidates(case.model, case.cluster, case.training, scenario.plan, wanted, case.behaviour)
    bounds = Screener(case, case.cluster.device.memory_bytes).bounds(x)
    found, proof = search(case, x, bounds)
    assert proof.complete and verified(case, x, bounds, found, proof)
    times = {}
    for i, j in np.argwhere(x.legal).tolist():
        step = prepare(case.model, case.cluster, case.training, x.plan(i, j))
        if memory_of(step).peak_reserved_bytes <= case.cluster.device.memory_bytes:
            times[i, j] = step_time(step)
    assert found.best is not None and len(times) > 10
    assert proof.best_s == min(times.values())
    assert proof.simulated < len(times)


def test_a_wrong_proof_is_not_verified() -> None:
    scenario = Scenario.model_validate(SMALL)
    case, wanted = case_of(scenario, None)
    x = candidates(case.model, case.cluster, case.training, scenario.plan, wanted, case.behaviour)
    bounds = Screener(case, case.cluster.device.memory_bytes).bounds(x)
    found, proof = search(case, x, bounds)
    found.evaluated.remove(min(found.evaluated, key=lambda e: e.step_time_s))
    assert not verified(case, x, Bounds(bounds.time_s * 0.5, bounds.memory_bytes, 0), found, proof)


def test_the_best_plan_trains_as_planned() -> None:
    result = api.plan(SMALL)
    again = api.simulate_training(result.scenario, sensitivities=False)
    assert again.step_time_s == result.proof.best_s == result.best.step_time_s
    assert again.memory_fits
