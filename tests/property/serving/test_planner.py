"""The serving planner on small spaces: bounds hold for every run, and the search finds what brute force finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel.errors import Infeasible
from windtunnel.planner.serving.best_first_search import Search
from windtunnel.planner.serving.candidate_table import NOTHING, CandidateTable
from windtunnel.planner.serving.instance_types import kinds_of
from windtunnel.planner.serving.plan_deployment import plan_serving
from windtunnel.planner.serving.question import loads_of, question_of
from windtunnel.planner.serving.simulate_candidate import Runs
from windtunnel.planner.serving.space import screen
from windtunnel.scenarios.load import load_scenario

pytestmark = pytest.mark.property
MODELS = {
    "meta-llama/Llama-3.1-8B": ("h100-sxm-80gb", "bf16"),
    "Qwen/Qwen3-30B-A3B": ("h200-sxm-141gb", "fp8"),
    "google/gemma-3-27b-pt": ("h200-sxm-141gb", "bf16"),
    "deepseek-ai/DeepSeek-V2-Lite": ("a100-sxm-80gb", "bf16"),
}
OBJECTIVES = ("devices", "cost_per_million_tokens", "tokens_per_s_per_device", "goodput", "tokens_per_s_per_user")


def scenario(seed: int, **changes: Any) -> Any:
    """A random question with a space of a few dozen deployments."""
    rng = np.random.default_rng(seed)
    model = str(rng.choice(list(MODELS)))
    device, weights = MODELS[model]
    lengths = [
        int(rng.integers(64, 3000)),
        {"distribution": "lognormal", "mean": int(rng.integers(100, 1500)), "cv": 1.0},
    ]
    traffic: dict[str, Any] = {
        "num_requests": int(rng.integers(60, 300)),
        "input_tokens": lengths[int(rng.integers(2))],
        "output_tokens": int(rng.integers(2, 300)),
        "seed": seed,
    }
    listed: dict[str, Any] = {}
    if rng.random() < 0.5:
        traffic["concurrency"] = 8
        listed["concurrency"] = [4, 16, 48]
    else:
        rate = float(rng.uniform(2, 40))
        traffic["rate_per_s"] = rate
        listed["rate_per_s"] = [rate / 2, rate, rate * 2]
    if rng.random() < 0.3:
        traffic["warmup_requests"] = 20
    slo: dict[str, Any] = {"percentile": float(rng.choice([0.5, 0.9, 0.99]))}
    for name, low, high in (("ttft_s", 0.05, 2.0), ("tpot_s", 0.005, 0.05), ("e2e_s", 1.0, 10.0)):
        if rng.random() < 0.6:
            slo[name] = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    engine = str(rng.choice(["vllm", "sglang", "trtllm", "lmdeploy"]))
    more: dict[str, Any] = {}
    if rng.random() < 0.25:
        more["speculation"] = {"method": "ngram", "tokens": 3, "acceptance": 0.6}
    if rng.random() < 0.4 and "speculation" not in more:
        listed["deployment"] = ["aggregated", "disaggregated"]
    space = {"tp": [1, 2], "pp": [1, 2], "max_num_seqs": [4, 32], "max_num_batched_tokens": [512, 4096], **listed}
    if "gemma" not in model and "Llama" not in model:
        space["dp"] = [1, 2]
    search = {
        "target": "serving",
        "objective": str(rng.choice(OBJECTIVES)),
        "space": space,
        "slo_at": "central",
        "prices": {device: 2.0},
    }
    data = {
        "schema_version": 1,
        "model": model,
        "cluster": {"device": device, "nodes": 1, "devices_per_node": 4},
        "serving": {"engine": engine, "precision": {"weights": weights}, "traffic": traffic, "slo": slo} | more,
        "search": search,
    }
    return load_scenario(data | changes, [])


@pytest.mark.parametrize("seed", [s if s == 11 else pytest.param(s, marks=pytest.mark.slow) for s in range(14)])
def test_no_run_beats_its_bound_and_the_search_finds_the_best(seed: int) -> None:
    q = question_of(scenario(seed), Path(), None)
    runs = Runs(question=q, slo=q.goals.slo)
    kinds = kinds_of(q, runs.longest(loads_of(q, 1)[0])).kinds
    x = CandidateTable.joined(list(screen(q, kinds, runs)))
    assert len(x) > 20
    bounds = q.goals.bounds(x.best)[:, 0]
    best = np.inf
    for i in range(len(x)):
        kind = kinds[int(x.kind[i])]
        trial = Runs(question=q, slo=q.goals.slo, _traffic=runs._traffic).run(x.at(kinds, i))
        if trial is None or trial.rejected:
            continue
        if trial.share >= q.goals.slo.percentile:
            assert x.impossible[i] == NOTHING, (i, kind.axes(), trial)
            key = q.goals.key(q.goals.values(trial.figures))[0]
            assert bounds[i] <= key + 1e-9 * abs(key), (i, kind.axes(), bounds[i], key)
            if not trial.saturated:
                best = min(best, key)
    search = Search(
        kinds=kinds,
        runs=Runs(question=q, slo=q.goals.slo),
        goals=q.goals,
        upper=False,
        falling=False,
        tell=lambda *a: None,
    )
    search.offer(x)
    found, proof = search.finish()
    assert proof.complete
    assert (found.best.key[0] if found.best else np.inf) == best
    settled = proof.simulated + proof.settled + proof.refused
    assert settled + proof.too_slow + proof.too_much + proof.limits + proof.bound + proof.load == proof.candidates


@pytest.mark.parametrize("seed", [pytest.param(s, marks=pytest.mark.slow) if s < 2 else s for s in range(4)])
def test_the_front_is_what_brute_force_leaves(seed: int) -> None:
    s = scenario(seed)
    wanted = s.search.model_copy(update={"objective": ("tokens_per_s_per_device", "tokens_per_s_per_user")})
    q = question_of(s.model_copy(update={"search": wanted}), Path(), None)
    runs = Runs(question=q, slo=q.goals.slo)
    kinds = kinds_of(q, runs.longest(loads_of(q, 1)[0])).kinds
    x = CandidateTable.joined(list(screen(q, kinds, runs)))
    search = Search(kinds=kinds, runs=runs, goals=q.goals, upper=False, falling=False, tell=lambda *a: None)
    search.offer(x)
    found, proof = search.finish()
    keys = []
    for i in range(len(x)):
        t = runs.run(x.at(kinds, i))
        if t and not t.rejected and not t.saturated and t.share >= q.goals.slo.percentile:
            keys.append(q.goals.key(q.goals.values(t.figures)))
    front = {k for k in keys if not any(o != k and all(a <= b for a, b in zip(o, k, strict=True)) for o in keys)}
    assert proof.complete and {e.key for e in found.front} == front


def test_equal_runs_are_equal_runs() -> None:
    q = question_of(scenario(5), Path(), None)
    runs = Runs(question=q, slo=q.goals.slo)
    kinds = kinds_of(q, runs.longest(loads_of(q, 1)[0])).kinds
    x = CandidateTable.joined(list(screen(q, kinds, runs)))
    for i in range(len(x)):
        assert runs.run(x.at(kinds, i)) == Runs(question=q, slo=q.goals.slo).run(x.at(kinds, i))
    assert runs.settled > 0


def test_what_fits_nowhere_says_how_near_it_came() -> None:
    s = scenario(1)
    serving = s.serving.model_copy(update={"slo": s.serving.slo.model_copy(update={"ttft_s": 1e-3})})
    with pytest.raises(Infeasible) as error:
        plan_serving(s.model_copy(update={"serving": serving}), None, Path())
    assert "TTFT" in str(error.value) and "over" in str(error.value)
