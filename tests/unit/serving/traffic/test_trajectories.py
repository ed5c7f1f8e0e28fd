"""Several answers to one prompt: what they share, who branches, what a step waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from serving_requests import LIMITS, LINEAR

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.requests import DONE
from windtunnel.serving.results.per_task import by_task
from windtunnel.serving.simulate import simulate_serving
from windtunnel.serving.traffic import generate
from windtunnel.serving.traffic.trajectories import mean_held
from windtunnel.serving.traffic.trajectories.base import METHODS, divided
from windtunnel.serving.traffic.trajectories.methods.ets import kept_leaves
from windtunnel.specs.traffic import TrafficSpec
from windtunnel.views.serve_words import tasks_text

STEPS = {"distribution": "normal", "mean": 4, "cv": 0.4, "min": 1, "max": 8}


def traffic(method: str = "samples", width: int = 8, steps: Any = 1, **more: Any) -> TrafficSpec:
    own = more.pop("own", {})
    given = {
        "offline": True,
        "num_requests": 5,
        "input_tokens": 200,
        "output_tokens": 30,
        "trajectories": {"method": method, "width": width, "steps": steps} | own,
    }
    if "rate_per_s" in more or "concurrency" in more:
        del given["offline"]
    return TrafficSpec.model_validate(given | more)


def tree(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random tree: rewards, ancestors, meanings of its leaves."""
    g = np.random.default_rng(seed)
    count, depth = int(g.integers(2, 9)), int(g.integers(1, 4))
    path = np.zeros((count, depth), np.int64)
    for d in range(depth):
        before = np.unique(path[:, d - 1], return_inverse=True)[1] if d else np.zeros(count, np.int64)
        path[:, d] = 100 * (d + 1) + 2 * before + g.integers(0, 2, count)
    return g.random(count), path, g.integers(0, 3, count)


def test_samples_of_a_prompt_share_its_blocks_and_compute_it_once() -> None:
    requests = generate(traffic(num_requests=2)).requests
    assert len(requests) == 16
    assert requests.after is None  # the jitted loop serves them
    limits = replace(LIMITS, max_seqs=64, budget=4096, blocks=1000, early=True)
    outcome = loop.serve(requests, LINEAR, limits, 1)
    assert (requests.state == DONE).all()
    assert (requests.cached_tokens == 192).sum() == 14  # all but the first of each prompt: 12 of 12.5 blocks
    assert outcome.totals["kv_max"][0] == 2 * (12 + 8 * 3)  # 12 shared, 230 tokens each
    late = generate(traffic(num_requests=2)).requests
    loop.serve(late, LINEAR, replace(limits, early=False), 1)
    assert not late.cached_tokens.any()  # none is found before it is computed


def test_tree_of_every_method_is_served_whole_and_step_by_step() -> None:
    for method, _ in METHODS.items():
        requests = generate(traffic(method, 9, STEPS)).requests
        reference.serve(requests, LINEAR, LIMITS, 1)
        assert (requests.state == DONE).all()
        after = requests.after
        assert after is not None
        depth = np.diff(requests.content.start) - 2  # type: ignore[union-attr]
        for task in range(5):
            for d in range(1, int(depth[requests.group == task].max()) + 1):
                now = (requests.group == task) & (depth == d)
                before = (requests.group == task) & (depth == d - 1)
                assert requests.arrival_s[now] == pytest.approx(requests.finish_s[before].max())
                if method != "beam":
                    assert now.sum() <= before.sum()
        first = requests.group == 0
        assert (first & (depth == 0)).sum() == 9
        assert (requests.input_tokens == 200 + 30 * depth).all()


def test_a_closed_loop_keeps_so_many_prompts_in_flight() -> None:
    for steps in (1, 3):
        requests = generate(traffic("rebase", 6, steps, concurrency=2, num_requests=9)).requests
        reference.serve(requests, LINEAR, replace(LIMITS, concurrency=2), 1)
        begin, end = np.full(9, np.inf), np.full(9, -np.inf)
        np.minimum.at(begin, requests.group, requests.arrival_s)
        np.maximum.at(end, requests.group, requests.finish_s)
        assert max(((begin <= at) & (end > at)).sum() for at in begin) == 2
        heads = np.flatnonzero(requests.input_tokens == 200)
        assert all(len(set(requests.arrival_s[heads[requests.group[heads] == t]])) == 1 for t in range(9))


def test_what_a_search_holds() -> None:
    requests = generate(traffic("samples", 4, 2, num_requests=1)).requests
    held, alone = mean_held(requests)
    assert held[0] == pytest.approx(((200 + 4 * 30) + (200 + 8 * 30)) / 2)
    assert alone[0] == pytest.approx((4 * 230 + 4 * 260) / 2)
    by_method = {
        m: mean_held(generate(traffic(m, 64, STEPS, num_requests=20)).requests)[0].mean() for m, _ in METHODS.items()
    }
    assert by_method["beam"] < by_method["ets"] <= by_method["rebase"] < by_method["samples"]


def test_a_width_divided_by_scores() -> None:
    g = np.random.default_rng(0)
    for _ in range(50):
        score = g.random(int(g.integers(1, 30)))
        width = int(g.integers(1, 60))
        out = divided(score, width, 0.2)
        assert out.sum() == width
        assert (np.diff(out[np.argsort(-score)]) <= 1).all()  # rounded up from the best on
        assert out[score.argmax()] >= 1
    assert divided(np.ones(4), 8, 0.2).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("seed", range(40))
def test_what_ets_keeps_is_the_integer_programs_optimum(seed: int) -> None:
    g = np.random.default_rng(seed)
    share, path, meaning = tree(seed)
    share = share / share.sum()
    node_cost, coverage = float(g.uniform(0, 3)), float(g.uniform(0, 1))
    found = _value(kept_leaves(share, path, meaning, node_cost, coverage), share, path, meaning, node_cost, coverage)
    assert found == pytest.approx(_optimum(share, path, meaning, node_cost, coverage), abs=1e-9)


def _value(x: Any, share: Any, path: Any, meaning: Any, node_cost: float, coverage: float) -> float:
    nodes = len(share) + 1 + sum(len(np.unique(p)) for p in path.T)
    used = x.sum() + 1 + sum(len(np.unique(p[x])) for p in path.T)
    said = len(np.unique(meaning[x])) / len(np.unique(meaning))
    return float(share[x].sum() - node_cost * used / nodes + coverage * said)


def _optimum(share: Any, path: Any, meaning: Any, node_cost: float, coverage: float) -> float:
    """The program as published, by a solver."""
    inner = [(p, u) for p in path.T for u in np.unique(p)]
    said = np.unique(meaning)
    n, m, k = len(share), len(inner) + 1, len(said)
    gain = np.concatenate([share - node_cost / (n + m), np.full(m, -node_cost / (n + m)), np.full(k, coverage / k)])
    rows, low = [np.r_[np.ones(n), np.zeros(m + k)]], [1.0]
    for i in range(n):
        for j, (p, u) in enumerate(inner):
            if p[i] == u:
                row = np.zeros(n + m + k)
                row[n + j], row[i] = 1, -1
                rows.append(row)
                low.append(0.0)
        row = np.zeros(n + m + k)
        row[n + m - 1], row[i] = 1, -1
        rows.append(row)
        low.append(0.0)
    for c, name in enumerate(said):
        row = np.r_[(meaning == name).astype(float), np.zeros(m + k)]
        row[n + m + c] = -1
        rows.append(row)
        low.append(0.0)
    rules = LinearConstraint(np.array(rows), np.array(low), np.inf)
    got = milp(-gain, constraints=rules, integrality=np.ones(n + m + k), bounds=Bounds(0, 1))
    return -float(got.fun)


def test_results_by_search() -> None:
    result = simulate_serving(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
            "serving": {
                "traffic": {
                    "rate_per_s": 2,
                    "num_requests": 6,
                    "input_tokens": 500,
                    "output_tokens": 40,
                    "trajectories": {"method": "ets", "width": 16, "steps": 3, "latency_s": 30.0},
                }
            },
        }
    )
    found = result.tasks["ets"]
    assert found["tasks"] == found["completed"] == 6
    assert found["calls_per_task"] == 48
    assert found["attainment"] == 1
    assert found["held_tokens"] < found["held_tokens_unshared"]
    single = traffic()
    requests = generate(single).requests
    loop.serve(requests, LINEAR, LIMITS, 1)
    assert by_task(requests, single, 0.0)["samples"]["tasks"] == 5


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(BadInput, match=r"trajectories.method.*samples"):
        generate(traffic("nothing"))
    with pytest.raises(BadInput, match=r"trajectories.keep.*is not read by method ets"):
        generate(traffic("ets", own={"keep": 3}))
    with pytest.raises(BadInput, match=r"keep.*at most width 8"):
        generate(traffic("beam", own={"keep": 9}))
    with pytest.raises(ValueError, match=r"sessions.*with trajectories"):
        traffic(sessions={"turns": {"mean": 3}})
    with pytest.raises(BadInput, match=r"steps.*at most 1000"):
        generate(traffic("beam", steps={"mean": 5000}))


def test_the_report_names_searches() -> None:
    found = {"tasks": 5, "calls_per_task": 48.0, "latency_s": {"mean": 2.0, "p99": 3.0}}
    held = {"held_tokens": 900.0, "held_tokens_unshared": 4000.0}
    text = tasks_text({"all": found | held, "ets": found | held})
    assert text == "ets: 5 of 48 requests; each takes 2.00 s, p99 3.00 s; holds 900 tokens, 4,000 unshared"
    assert len(tasks_text({"all": found, "team": found, "react": found}).splitlines()) == 3


def test_the_technique_switches_a_search() -> None:
    given: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
        "techniques": ["ets"],
        "serving": {
            "traffic": {
                "offline": True,
                "num_requests": 2,
                "input_tokens": 100,
                "output_tokens": 20,
                "trajectories": {"method": "beam", "width": 16, "keep": 2, "steps": 3},
            }
        },
    }
    assert list(simulate_serving(given).tasks) == ["all", "ets"]
    with pytest.raises(BadInput, match=r"trajectories = beam: are not planned for"):
        api.plan(given | {"techniques": [], "search": {"target": "serving"}})
    del given["serving"]["traffic"]["trajectories"]
    assert any("searches nothing" in line for line in simulate_serving(given).warnings)
