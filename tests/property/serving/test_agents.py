"""Laws of agents: every call after those it waits for, prompts as the graph says, nobody lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from serving_requests import LIMITS, LINEAR

from windtunnel.errors import BadInput
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.requests import DONE, Requests
from windtunnel.serving.results.per_task import by_task
from windtunnel.serving.simulate import simulate_serving
from windtunnel.serving.traffic import generate
from windtunnel.specs.traffic import Agent, TrafficSpec

TEAM = {
    "name": "team",
    "system_tokens": 64,
    "share": 2.0,
    "calls": [
        {"id": "plan", "input_tokens": 40, "output_tokens": 30},
        {"id": "left", "after": ["plan"], "input_tokens": 20, "output_tokens": 25, "tool_s": 0.5},
        {"id": "right", "after": ["plan"], "input_tokens": 10, "output_tokens": {"distribution": "gamma", "mean": 50}},
        {"id": "join", "after": ["left", "right"], "context": "fresh", "input_tokens": 5, "output_tokens": 40},
    ],
}
REACT = {
    "name": "react",
    "calls": [
        {"id": "ask", "input_tokens": 100, "output_tokens": 20},
        {
            "id": "act",
            "after": ["ask"],
            "repeat": 4,
            "input_tokens": 30,
            "output_tokens": 20,
            "tool_s": 0.2,
            "tool_distribution": "fixed",
        },
    ],
}


def traffic(seed: int = 0, **more: Any) -> TrafficSpec:
    given = {"rate_per_s": 2.0, "num_requests": 30, "seed": seed, "agents": [TEAM, REACT]} | more
    return TrafficSpec.model_validate(given)


def served(spec: TrafficSpec, limits: Limits = LIMITS, instances: int = 1) -> Requests:
    requests = generate(spec).requests
    reference.serve(requests, LINEAR, replace(limits, concurrency=spec.concurrency or 0), instances)
    return requests


@pytest.mark.parametrize("seed", range(4))
def test_a_call_is_sent_when_what_it_waits_for_and_its_tools_have_ended(seed: int) -> None:
    requests = served(traffic(seed))
    assert (requests.state == DONE).all()
    after = requests.after
    assert after is not None
    last = np.full(len(requests), -np.inf)
    for i in range(len(requests)):
        children = after.children[after.start[i] : after.start[i + 1]]
        last[children] = np.maximum(last[children], requests.finish_s[i])
    waits = np.isfinite(last)
    assert waits.sum() > 60
    np.testing.assert_allclose(requests.arrival_s[waits], (last + requests.delay_s)[waits])


def test_prompts_hold_what_the_graph_says() -> None:
    requests = generate(traffic(agents=[TEAM])).requests
    rows = [slice(i, None, 4) for i in range(4)]
    plan, left, right, join = (requests.input_tokens[r].astype(int) for r in rows)
    out = [requests.output_tokens[r].astype(int) for r in rows]
    assert (plan == 104).all()
    assert (left == plan + out[0] + 20).all()
    assert (right == plan + out[0] + 10).all()
    assert (join == 64 + out[1] + out[2] + 5).all()
    found = requests.prefix_tokens
    assert (found[rows[1]] == plan + out[0]).all()  # goes on from the plan, its answer included
    assert (found[rows[3]] == 64).all()  # fresh: the system prompt alone
    assert found[0] == 0


def test_a_task_alone_takes_the_sum_of_its_longest_path() -> None:
    """One task, no queueing: decode steps and prompts along the path, and tools."""
    limits = Limits(budget=4096, max_seqs=64, block=1)
    requests = served(traffic(num_requests=1, agents=[REACT]), limits)
    path = (requests.finish_s - requests.arrival_s).sum() + 4 * 0.2
    assert requests.finish_s.max() - requests.arrival_s.min() == pytest.approx(path)


def test_a_closed_loop_keeps_so_many_tasks_in_flight() -> None:
    spec = traffic(rate_per_s=None, concurrency=3, num_requests=20)
    requests = served(spec)
    assert (requests.state == DONE).all()
    assert requests.after is not None
    task = requests.after.task
    begin, end = np.full(20, np.inf), np.full(20, -np.inf)
    np.minimum.at(begin, task, requests.arrival_s)
    np.maximum.at(end, task, requests.finish_s)
    for at in begin:
        assert ((begin <= at) & (end > at)).sum() <= 3
    assert np.sort(begin)[3:] == pytest.approx(np.sort(end)[: len(begin) - 3])


def test_shared_context_is_computed_once() -> None:
    hits = served(traffic(num_requests=60, agents=[TEAM])).cached_tokens.sum()
    fresh = [dict(c, context="fresh") for c in TEAM["calls"]]  # type: ignore[attr-defined]
    apart = served(traffic(num_requests=60, agents=[TEAM | {"calls": fresh}])).cached_tokens.sum()
    assert hits > 1.5 * apart > 0


def test_results_by_task() -> None:
    result = simulate_serving(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
            "serving": {"traffic": {"rate_per_s": 3, "num_requests": 60, "agents": [TEAM | {"latency_s": 3.0}, REACT]}},
        }
    )
    tasks = result.tasks
    assert tasks["all"]["tasks"] == tasks["all"]["completed"] == 60
    assert tasks["team"]["tasks"] + tasks["react"]["tasks"] == 60
    assert tasks["react"]["calls_per_task"] == 5
    assert result.requests == 4 * tasks["team"]["tasks"] + 5 * tasks["react"]["tasks"]
    assert tasks["react"]["latency_s"]["mean"] > 4 * 0.2 + 5 * result.ttft_s.p50
    assert 0 < tasks["team"]["attainment"] <= 1


def test_no_agents_no_tasks() -> None:
    spec = TrafficSpec.model_validate({"rate_per_s": 1, "num_requests": 3, "input_tokens": 5, "output_tokens": 5})
    assert by_task(generate(spec).requests, spec, 0.0) == {}


def test_what_is_wrong_is_said_at_once() -> None:
    calls = [
        {"id": "a", "after": ["b"], "input_tokens": 1, "output_tokens": 1, "tool_s": 1},
        {"id": "a", "input_tokens": 1, "output_tokens": 1, "tool_s": 1},
    ]
    with pytest.raises(ValueError, match=r"calls\[0\].after.*calls\[1\].id.*calls\[1\].tool_s"):
        Agent.model_validate({"name": "x", "calls": calls})
    two = [{"id": "a", "input_tokens": 1, "output_tokens": 1}, {"id": "b", "input_tokens": 1, "output_tokens": 1}]
    with pytest.raises(ValueError, match=r"must begin with one call"):
        traffic(rate_per_s=None, concurrency=2, agents=[{"name": "x", "calls": two}])
    with pytest.raises(ValueError, match=r"input_tokens.*is not read with agents"):
        traffic(input_tokens=5)
    with pytest.raises(BadInput):
        generate(traffic(warmup_requests=10_000))
