"""Screen ≤ simulation for every candidate, and the search equals brute force where one can afford it."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.cost.clock import idle_w
from windtunnel.errors import BadInput
from windtunnel.planner.bounds import screen
from windtunnel.planner.bounds.cluster_floor import cluster_floor
from windtunnel.planner.bounds.cost_sharing_keys import CostSharing
from windtunnel.planner.bounds.forked_screen import split_in_two
from windtunnel.planner.bounds.screen import Bounds, Screener
from windtunnel.planner.case import Case
from windtunnel.planner.objectives import Figures, Goals
from windtunnel.planner.plan_one_cluster import branch_of, case_of
from windtunnel.planner.question import question_of
from windtunnel.planner.search.branch_and_bound import Branch, Found, Proof, search
from windtunnel.planner.search.equivalent_plans import program_key
from windtunnel.planner.space.candidates import LAYOUT_AXES, Candidates, enumerate_candidates
from windtunnel.specs.scenario import Scenario
from windtunnel.training.prepare_step import prepare
from windtunnel.training.simulate_step import memory_of, run, step_time
from windtunnel.training.step_figures.power import power_of

pytestmark = pytest.mark.property
SAMPLES = 6
"""Candidates that are looked at one by one in each space."""
MOST = 1500
"""Instructions of a step that is simulated, at most."""
A100: dict[str, Any] = {"device": "a100-sxm-80gb", "nodes": 4, "devices_per_node": 8}
H100: dict[str, Any] = {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
SPACES: dict[str, dict[str, Any]] = {
    "zero": {
        "model": "gpt3-6.7b",
        "cluster": A100,
        "training": {"seq_len": 2048, "global_batch": 64, "framework": "megatron_2022"},
        "search": {
            "space": {
                "cp": [1],
                "zero": [0, 1, 2],
                "recompute": ["selective"],
                "overlap_param_gather": [True, False],
                "order": [["tp", "cp", "ep", "dp", "pp"], ["tp", "cp", "ep", "pp", "dp"]],
            }
        },
    },
    "dense, Megatron of 2022": {
        "model": "gpt3-6.7b",
        "cluster": A100,
        "training": {"seq_len": 2048, "global_batch": 64, "framework": "megatron_2022"},
        "search": {
            "space": {
                "cp": [1],
                "sp": [True, False],
                "zero": [0, 1],
                "overlap_grad_reduce": [True, False],
                "recompute": ["none", "selective", "full", "full:2"],
            }
        },
    },
    "dense, Megatron-Core": {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "megatron_core"},
        "search": {
            "space": {
                "zero": [1],
                "mbs": [1, 2],
                "overlap_tp": [True, False],
                "overlap_p2p": [True, False],
                "cp_kind": ["ring", "all_to_all", "hybrid"],
                "offload_optimizer": [0.0, 1.0],
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
                "recompute": ["none", "full"],
                "cp": [1, 2, 4],
                "reshard_after_forward": [True, False],
            }
        },
    },
    "mixture": {
        "model": "mistralai/Mixtral-8x7B-v0.1",
        "cluster": H100,
        "training": {"seq_len": 4096, "global_batch": 64, "framework": "megatron_bridge"},
        "search": {"space": {"cp": [1], "zero": [1], "mbs": [1, 4], "overlap_moe_a2a": [True, False]}},
    },
    "split backward": {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": H100,
        "training": {"seq_len": 4096, "global_batch": 32, "framework": "megatron_core"},
        "search": {
            "space": {
                "cp": [1],
                "zero": [1],
                "schedule": ["zb_h1", "1f1b", "gpipe", "zb_h2", "zb_v"],
                "pp": [1, 2, 4],
                "vpp": [1, 2],
            }
        },
    },
    "pairs": {
        "model": "mistralai/Mixtral-8x7B-v0.1",
        "cluster": H100,
        "training": {"seq_len": 4096, "global_batch": 64, "framework": "megatron_core"},
        "search": {
            "space": {
                "cp": [1],
                "zero": [1, 3],
                "mbs": [1],
                "schedule": ["zb_v", "dualpipev"],
                "pp": [2, 4],
                "vpp": [2],
                "recompute": ["none", "full"],
            }
        },
    },
    "offloading": {
        "model": "gpt3-6.7b",
        "cluster": A100,
        "training": {"seq_len": 2048, "global_batch": 64, "framework": "megatron_2022"},
        "search": {
            "space": {
                "cp": [1],
                "sp": [True],
                "zero": [0, 1],
                "overlap_p2p": [True, False],
                "recompute": ["none", "full"],
                "offload_activations": [0.5, 1.0],
                "offload_params": [0.0, 1.0],
            }
        },
    },
    "offloading, tiers": {
        "model": "gpt3-6.7b",
        "cluster": A100
        | {
            "storage": {"bytes": "30 TB", "read_bytes_per_s": "50 GB/s", "write_bytes_per_s": "20 GB/s"},
        },
        "training": {"seq_len": 2048, "global_batch": 64, "framework": "deepspeed"},
        "plan": {
            "offload": {
                "gradients": 1.0,
                "activations_tier": "nvme",
                "update": "beside_backward",
                "prefetch_layers": 4,
            }
        },
        "search": {
            "space": {
                "cp": [1],
                "vpp": [1],
                "zero": [0, 3],
                "recompute": ["none", "full"],
                "offload_optimizer": [0.0, 1.0],
                "offload_activations": [0.0, 1.0],
                "offload_params": [0.0, 1.0],
            }
        },
    },
    "offloading to drives, shared updates": {
        "model": "gpt3-6.7b",
        "cluster": A100,
        "training": {"seq_len": 2048, "global_batch": 64, "framework": "deepspeed"},
        "plan": {"offload": {"tier": "nvme", "update_on_device": 0.5, "optimizer": 1.0}},
        "search": {
            "space": {
                "cp": [1],
                "vpp": [1],
                "zero": [1, 3],
                "offload_activations": [0.0, 0.5],
                "offload_params": [0.0, 1.0],
            }
        },
    },
    "gradients that follow the optimizer": {
        "model": "gpt3-6.7b",
        "cluster": A100 | {"nodes": 1},
        "training": {"seq_len": 2048, "global_batch": 16, "framework": "deepspeed"},
        "search": {
            "space": {
                "cp": [1],
                "vpp": [1],
                "zero": [0, 1],
                "recompute": ["full"],
                "overlap_grad_reduce": [True, False],
                "offload_optimizer": [1.0],
                "offload_params": [0.0, 1.0],
            }
        },
    },
    "levels": {
        "model": "gpt3-6.7b",
        "cluster": A100 | {"nodes": 4},
        "training": {"seq_len": 2048, "global_batch": 64, "framework": "deepspeed"},
        "plan": {"levels": {"params": 1, "gradients": 1, "gather_bits": 8}, "gathered_layers": 3},
        "search": {"space": {"cp": [1], "vpp": [1], "zero": [3], "recompute": ["none", "full"]}},
    },
    "offloading, sharded": {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "torchtitan"},
        "search": {
            "space": {
                "zero": [3],
                "cp": [1, 2],
                "recompute": ["none", "full"],
                "schedule": ["1f1b", "gpipe", "zb_h1"],
                "vpp": [1],
                "offload_activations": [0.0, 1.0],
                "offload_params": [0.0, 0.5],
            }
        },
    },
    "memory that a compiler plans": {
        "model": "google/gemma-2-9b",
        "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "jax"},
        "search": {"space": {"cp": [1], "pp": [2, 4], "zero": [1, 2], "recompute": ["none"], "mbs": [1, 2]}},
    },
    "uneven stages": {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "nemo"},
        "plan": {"pp": 4, "vpp": 1, "stage_layers": [5, 9, 9, 9]},
        "search": {"space": {"zero": [1]}},
    },
    "pipeline inside": {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": H100,
        "training": {"seq_len": 8192, "global_batch": 32, "framework": "nemo"},
        "search": {
            "space": {
                "zero": [1],
                "cp": [1, 2],
                "mbs": [1, 2, 4],
                "order": [
                    ["tp", "cp", "ep", "dp", "pp"],
                    ["tp", "cp", "ep", "pp", "dp"],
                    ["dp", "cp", "tp", "ep", "pp"],
                    ["pp", "dp", "tp", "ep", "cp"],
                ],
            }
        },
    },
}


@cache
def space(name: str) -> tuple[Case, Candidates]:
    scenario = Scenario.model_validate(SPACES[name])
    case, wanted = case_of(scenario, None)
    return case, enumerate_candidates(case.model, case.cluster, case.training, scenario.plan, wanted, case.behaviour)


@cache
def screened(name: str) -> tuple[Screener, Bounds]:
    case, x = space(name)
    screener = Screener(case)
    return screener, screener.bounds(x)


SLOWEST = ("mixture", "dense, Megatron-Core", "dense, Megatron of 2022")
"""Spaces whose bounds take seconds."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOWEST else n for n in SPACES])
def test_no_candidate_beats_its_bounds(name: str) -> None:
    case, x = space(name)
    screener, bounds = screened(name)
    work_j, idle = screener.work_j(x, bounds), idle_w(case.cluster.device)
    few = (x.m * x.pp * x.vpp <= MOST)[:, None]
    cells = np.argwhere(x.legal & few & np.isfinite(bounds.time_s))
    assert len(cells) > 30
    floor, able = cluster_floor(case), np.isfinite(bounds.time_s)
    assert 0.1 * bounds.time_s.min() < floor.time_s[0] <= bounds.time_s.min()
    assert 0.1 * work_j[able].min() < floor.work_j[0] <= work_j[able].min()  # type: ignore[index]
    seen = 0
    for i, j in random.Random(5).sample(cells.tolist(), SAMPLES):
        try:
            step = prepare(case.model, case.cluster, case.training, x.plan(i, j), case.techniques)
        except BadInput:
            continue
        seen += 1
        assert bounds.time_s[i, j] <= step_time(step) * (1 + 1e-9), x.plan(i, j)
        joules = power_of(step, 1.0) - idle  # of a step of one second
        assert 0.9 * joules < work_j[i, j] <= joules * (1 + 1e-9), x.plan(i, j)
        assert bounds.memory_bytes[i, j] <= memory_of(step).peak_reserved_bytes * (1 + 1e-9), x.plan(i, j)
    assert seen >= 0.7 * SAMPLES


SHARED = ("mixture", "dense, Megatron-Core", "sharded")
"""Spaces whose bounds take longest to compute alone: the long suite has them."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SHARED else n for n in SPACES])
def test_a_bound_does_not_depend_on_what_else_is_in_the_space(name: str) -> None:
    case, x = space(name)
    time_s = screened(name)[1].time_s
    cells = np.argwhere(x.legal & np.isfinite(time_s)).tolist()
    for i, j in random.Random(9).sample(cells, SAMPLES // 2):
        axes = {axis: getattr(x, axis)[i : i + 1] for axis in (*LAYOUT_AXES, "dp", "m")}
        alone = replace(x, **axes, policies=(x.policies[j],), legal=np.ones((1, 1), np.bool_))
        assert Screener(case).bounds(alone).time_s[0, 0] == pytest.approx(time_s[i, j], rel=1e-9), x.plan(i, j)


@pytest.mark.parametrize("name", SPACES)
def test_a_step_is_the_same_with_blocks_that_other_plans_priced(name: str) -> None:
    case, x = space(name)
    cells = [(i, j) for i, j in np.argwhere(x.legal).tolist() if x.m[i] * x.pp[i] * x.vpp[i] <= 1000]
    for i, j in random.Random(7).sample(cells, 12):
        try:
            alone = prepare(case.model, case.cluster, case.training, x.plan(i, j), case.techniques)
        except BadInput:
            continue
        shared = prepare(case.model, case.cluster, case.training, x.plan(i, j), case.techniques, cache=case.cache)
        assert step_time(shared) == step_time(alone), x.plan(i, j)
        assert shared.stages.kept_bytes == alone.stages.kept_bytes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can copy a process")
def test_two_processes_screen_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    (case, x), (_, alone) = space("offloading"), screened("offloading")
    monkeypatch.setattr(screen, "WORTH", 1)
    monkeypatch.setattr(screen, "can_copy", lambda: True)
    first, second = split_in_two(x)
    assert len(first) and len(second) and sorted([*first, *second]) == list(range(len(x.tp)))
    shared = Screener(case).bounds(x)
    assert np.array_equal(alone.time_s, shared.time_s) and np.array_equal(alone.memory_bytes, shared.memory_bytes)
    here = os.getpid()

    def fails(self: Screener, x: Candidates, keys: CostSharing, part: Any, time_s: Any, memory: Any) -> None:
        if os.getpid() != here:
            raise MemoryError
        whole(self, x, keys, part, time_s, memory)

    whole = Screener._fill
    monkeypatch.setattr(Screener, "_fill", fails)
    assert np.array_equal(alone.time_s, Screener(case).bounds(x).time_s)


def test_twins_have_one_step() -> None:
    case, x = space("zero")
    kinds: dict[Any, list[tuple[int, int]]] = {}
    for i, j in np.argwhere(x.legal).tolist():
        if x.m[i] * x.pp[i] * x.vpp[i] <= 500:
            kinds.setdefault(program_key(case, x, i, j), []).append((i, j))
    several = [of for of in kinds.values() if len(of) > 1]
    for of in random.Random(3).sample(several, 8):
        programs = [
            prepare(case.model, case.cluster, case.training, x.plan(i, j), case.techniques, cache=case.cache).program
            for i, j in of
        ]
        one = programs[0].tasks
        for other in programs[1:]:
            for column in ("alone_s", "stream_idx", "dep_idx", "rate_idx", "rate_work", "tag"):
                assert np.array_equal(getattr(one, column), getattr(other.tasks, column)), (column, of)


def test_an_order_that_lays_the_mesh_alike_counts_once() -> None:
    _, x = space("pipeline inside")
    names = ("tp", "cp", "pp", "dp")
    seen = set()
    for i, j in np.argwhere(x.legal).tolist():
        active = tuple(a for a in x.policies[j].order if a in names and getattr(x, a)[i] > 1)
        seen.add((i, x.policies[j].recompute, active))
    assert len(seen) == x.count


def verified(branches: list[Branch], goals: Goals, found: Found, proof: Proof) -> bool:
    """The proof, checked without the search: every candidate breaks a limit, is no better by its bounds, or was run."""
    done = {(e.branch, e.layout, e.policy): e for e in found.evaluated}
    refused = [(which, plan) for which, plan, _ in found.refused]
    metrics = goals.objectives
    front = [[m.signed(e.values[m.name]) for m in metrics] + [e.step_time_s] for e in found.front]
    counts = dict.fromkeys(("memory", "bound", "refused", "simulated", *(x.metric.name for x in goals.limits)), 0)
    for which, branch in enumerate(branches):
        s = goals.within(branch.setting)
        if not branch.screening.done:  # the whole cluster is ruled out by the least time of a step
            broken = [
                x.metric.name for x in goals.limits if not x.met(float(x.metric.bound(s, branch.cluster_floor)[0]))
            ]
            best = [float(m.signed(m.bound(s, branch.cluster_floor))[0]) for m in metrics] + [
                float(branch.cluster_floor.time_s[0])
            ]
            if not broken and not any(no_better(best, point) for point in front):
                return False
            counts[broken[0] if broken else "bound"] += branch.candidates.count
            continue
        b = branch.bounds
        capacity = s.memory_bytes * goals.memory_fraction
        for i, j in np.argwhere(branch.candidates.legal).tolist():
            floor = branch.lower_bounds(np.array([i * b.time_s.shape[1] + j]))
            best = [float(m.signed(m.bound(s, floor))[0]) for m in metrics] + [float(floor.time_s[0])]
            broken = [x.metric.name for x in goals.limits if not x.met(float(x.metric.bound(s, floor)[0]))]
            if (which, i, j) in done:
                e = done[which, i, j]
                mine = [m.signed(e.values.get(m.name, -np.inf)) for m in metrics] + [e.step_time_s]
                if e.feasible and not any(no_better(mine, point) for point in front):
                    return False
                counts["simulated"] += 1
            elif capacity < b.memory_bytes[i, j] < np.inf:
                counts["memory"] += 1
            elif not np.isfinite(floor.time_s[0]) or (which, branch.candidates.plan(i, j)) in refused:
                counts["refused"] += 1
            elif broken:
                counts[broken[0]] += 1
            elif any(no_better(best, point) for point in front):
                counts["bound"] += 1
            else:
                return False
    told = {
        "memory": proof.pruned_by_memory,
        "bound": proof.pruned_by_bound,
        "refused": proof.refused,
        "simulated": proof.simulated,
        **proof.pruned_by_limit,
    }
    return counts == told and sum(counts.values()) == proof.candidates and proof.open == 0


def no_better(mine: list[float], point: list[float]) -> bool:
    """One objective: by value, then step time. Several: nowhere better."""
    return mine >= point if len(point) == 2 else all(a >= b for a, b in zip(mine[:-1], point[:-1], strict=True))


def asked(scenario: dict[str, Any], **search_for: Any) -> tuple[list[Branch], Goals]:
    """Branches and goals of a scenario, with `search` extended."""
    question = question_of(Scenario.model_validate({**scenario, "search": {**scenario["search"], **search_for}}))
    goals = Goals.of(question.wanted)
    return [branch_of(v, question.wanted, goals) for v in question.variants], goals


Simulated = list[tuple[Branch, Figures, bool]]
"""Every plan: its figures, and whether device and host hold it."""


def everything(branches: list[Branch]) -> Simulated:
    """All plans, each simulated."""
    out = []
    for branch in branches:
        case = branch.case
        for i, j in np.argwhere(branch.candidates.legal).tolist():
            step = prepare(case.model, case.cluster, case.training, branch.candidates.plan(i, j))
            timeline = run(step)
            memory, seconds = memory_of(step, timeline), timeline.makespan_s
            figures = Figures(branch.setting, seconds, power_of(step, seconds), memory.peak_reserved_bytes)
            out.append((branch, figures, memory.fits))
    return out


def keys_of(simulated: Simulated, goals: Goals) -> list[tuple[float, ...]]:
    """Keys of the plans that keep to all limits."""
    return [
        goals.key(figures)
        for branch, figures, fits in simulated
        if fits
        and figures.reserved_bytes <= branch.setting.memory_bytes * goals.memory_fraction
        and not goals.missed(goals.values(figures))
    ]


SMALL: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {**H100, "nodes": 1},
    "training": {"seq_len": 8192, "global_batch": 16, "framework": "nemo"},
    "search": {
        "space": {
            "tp": [1, 2, 4],
            "pp": [1, 2, 4],
            "cp": [1, 2],
            "vpp": [1, 2],
            "mbs": [1, 2],
            "recompute": ["none", "full"],
        }
    },
}

GOALS: dict[str, dict[str, Any]] = {
    "step_time": {},
    "tokens_per_s": {"objective": "tokens_per_s", "limits": {"memory_fraction": 0.8}},
    "tokens_per_s_per_device": {"objective": "tokens_per_s_per_device"},
    "cost_per_million_tokens": {"objective": "cost_per_million_tokens"},
    "cost_per_trillion_tokens": {"objective": "cost_per_trillion_tokens", "limits": {"step_time": 2.0}},
    "energy_per_million_tokens": {"objective": "energy_per_million_tokens"},
    "power": {"objective": "power", "limits": {"step_time": 3.0}},
    "memory_headroom": {"objective": "memory_headroom", "limits": {"tokens_per_s": 50_000}},
    "time_to_tokens": {"objective": "time_to_tokens", "tokens": 1e12, "limits": {"power": 9_000}},
    "cost": {"objective": "cost", "tokens": 1e12, "limits": {"time_to_tokens": "200 d", "memory_headroom": "20 GiB"}},
    "devices": {"objective": "devices", "tokens": 1e12, "limits": {"time_to_tokens": "160 d"}},
    "time and memory": {"objective": ["step_time", "memory_headroom"]},
    "time, energy, cost": {"objective": ["step_time", "energy_per_million_tokens", "cost_per_million_tokens"]},
    "cost and power within limits": {
        "objective": ["cost_per_million_tokens", "power"],
        "limits": {"step_time": 4.0, "memory_headroom": "4 GiB"},
    },
}
SKIPPED = {"devices": 1, "step_time": 1, "energy_per_million_tokens": 1, "cost_per_trillion_tokens": 1}
"""Clusters that need no bounds, at least."""
CHOICE: dict[str, Any] = {
    **SMALL,
    "search": {
        "space": {
            "tp": [1, 2],
            "pp": [1, 2],
            "cp": [1],
            "vpp": [1],
            "mbs": [1, 2],
            "recompute": ["none", "full"],
            "device": ["a100-sxm-80gb", "h100-sxm-80gb"],
            "nodes": [1, 2],
            "precision": ["bf16", "fp8"],
        },
        "prices": {"a100-sxm-80gb": 1.5},
    },
}


@pytest.fixture(scope="module")
def simulated() -> Simulated:
    branches, _ = asked(CHOICE)
    return everything(branches)


@pytest.mark.parametrize("name", GOALS)
def test_the_search_equals_brute_force(name: str, simulated: Simulated) -> None:
    branches, goals = asked(CHOICE, **GOALS[name])
    assert len(branches) == 6  # two node counts of H100 in two precisions, of A100 in one
    found, proof = search(branches, goals)
    assert proof.complete and verified(branches, goals, found, proof)
    skipped = [b for b in branches if not b.screening.done]
    assert len(skipped) >= SKIPPED.get(name, 0)
    run_tokens = branches[0].setting.run_tokens
    known = [(b, replace(f, setting=replace(f.setting, run_tokens=run_tokens)), ok) for b, f, ok in simulated]
    keys = keys_of(known, goals)
    assert found.best is not None and len(keys) >= 2
    if len(goals.objectives) == 1:
        assert found.best.key == min(keys)
    else:
        points = {tuple(round(x, 9) for x in k[:-1]) for k in keys}
        front = {
            p for p in points if not any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in points)
        }
        assert {tuple(round(x, 9) for x in e.key[:-1]) for e in found.front} == front and len(front) > 1
    assert proof.simulated < len(keys)


def test_a_wrong_proof_is_not_verified() -> None:
    branches, goals = asked(SMALL)
    found, proof = search(branches, goals)
    assert verified(branches, goals, found, proof)
    assert not verified(branches, goals, found, replace(proof, pruned_by_bound=proof.pruned_by_bound - 1))
    halved = [b.with_bounds(replace(b.bounds, time_s=b.bounds.time_s * 0.5)) for b in branches]
    assert not verified(halved, goals, found, proof)
    found.front.clear()
    assert not verified(branches, goals, found, proof)


def test_the_best_plan_trains_as_planned() -> None:
    result = api.plan(SMALL)
    again = api.simulate_training(result.scenario, sensitivities=False)
    assert again.step_time_s == result.proof.best_s == result.best.step_time_s
    assert again.memory_fits


def test_a_reduction_does_not_wait_for_the_hop_before_it() -> None:
    """Hops that block a stage, reductions after them, and a deep stage whose reductions end last."""
    tiny = {
        "family": "dense",
        "name": "tiny",
        "hidden_size": 2048,
        "intermediate_size": 5504,
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "vocab_size": 32000,
    }
    source = {
        "model": tiny,
        "cluster": H100 | {"nodes": 4, "scale_out": "1 x ethernet-25g"},
        "training": {"seq_len": 2048, "global_batch": 32, "precision": "bf16"},
        "plan": {"pp": 2, "stage_layers": [1, 7], "zero": 0, "tp": 1, "cp": 1, "mbs": 1},
        "search": {"space": {"overlap_p2p": [False], "overlap_grad_reduce": [False], "recompute": ["none"]}},
    }
    scenario = Scenario.model_validate(source)
    case, wanted = case_of(scenario)
    x = enumerate_candidates(case.model, case.cluster, case.training, scenario.plan, wanted, case.behaviour)
    assert x.count == 1
    seconds = step_time(prepare(case.model, case.cluster, case.training, x.plan(0, 0), case.techniques))
    assert Screener(case).bounds(x).time_s[0, 0] == pytest.approx(seconds, rel=1e-9)
