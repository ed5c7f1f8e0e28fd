"""Queues that look at whole programs, and the router for unlike instances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from serving_requests import LIMITS, LINEAR, context

from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop.fleet import Fleet
from windtunnel.serving.event_loop.instance_limits import Router as Rule
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.program_rest import rest_of_programs
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.queues import QUEUES
from windtunnel.serving.routers import ROUTERS
from windtunnel.serving.traffic import generate
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.specs.traffic import TrafficSpec

ONE_AT_A_TIME = replace(LIMITS, max_seqs=1, blocks=4000, caching=False)


def served(requests: Requests, queue: str) -> None:
    """On one instance that has one place; times are written into the requests."""
    own = QUEUES.get(queue)(replace(context(1), rest=rest_of_programs(requests)))
    reference.serve(requests, LINEAR, ONE_AT_A_TIME, 1, LoopRules(queue=own))


def two_programs(deadlines_s: tuple[float, float] = (np.inf, np.inf)) -> Requests:
    """One of three calls at 0, and one of a single long call that comes while the first call runs."""
    graph = ProgramGraph(np.array([0.0, 0.05]))
    first = np.array([0])
    own = graph.call(first, new=100, output=20)
    for _ in range(2):
        own = graph.call(first, context=own, new=10, output=20)
    graph.call(np.array([1]), new=100, output=200)
    graph.call(np.array([1]), new=100, output=200)  # two at once: one of them waits when the second call comes
    requests = graph.finish().requests
    requests.deadline_s = np.asarray(deadlines_s)[requests.group]
    return requests


def test_the_rest_of_a_program_is_its_longest_path() -> None:
    rest = rest_of_programs(two_programs())
    np.testing.assert_array_equal(rest.output_tokens, [60, 40, 20, 200, 200])
    np.testing.assert_array_equal(rest.prompt_tokens, [100 + 130 + 160, 130 + 160, 160, 100, 100])


def test_joins_take_the_longer_branch() -> None:
    graph = ProgramGraph(np.zeros(1))
    one = np.array([0])
    begin = graph.call(one, output=10)
    short, long = graph.call(one, context=begin, output=5), graph.call(one, context=begin, output=50)
    both = graph.join(one, after=np.stack([short, long], axis=1))
    graph.call(one, after=both, output=3)
    requests = graph.finish().requests
    np.testing.assert_array_equal(rest_of_programs(requests).output_tokens, [63, 8, 53, 3])


@pytest.mark.parametrize("queue", ["program_deadline", "program_rest"])
def test_an_old_program_goes_before_a_new_one(queue: str) -> None:
    first, other = two_programs(), two_programs()
    served(first, "fcfs")
    served(other, queue)
    ends = [r.finish_s[r.group == 0].max() for r in (first, other)]
    assert ends[1] < ends[0]  # its second call does not wait for both calls of the other
    assert np.isfinite(other.finish_s).all()


@pytest.mark.parametrize("queue", ["program_deadline", "program_slack", "stage_urgency"])
def test_the_one_that_is_due_sooner_goes_first(queue: str) -> None:
    urgent, patient = two_programs((0.5, 1000.0)), two_programs((1000.0, 0.5))
    served(urgent, queue)
    served(patient, queue)
    ends = [r.finish_s[r.group == 0].max() for r in (urgent, patient)]
    assert ends[0] < ends[1]


def test_least_rest_has_the_smallest_mean_latency() -> None:
    calls = [
        {"id": "a", "input_tokens": 40, "output_tokens": {"distribution": "lognormal", "mean": 20, "cv": 1.5}},
        {"id": "b", "after": ["a"], "input_tokens": 5, "output_tokens": 20, "repeat": 3},
    ]
    spec = {"offline": True, "num_requests": 40, "agents": [{"name": "x", "calls": calls}]}
    means = {}
    for queue in ("fcfs", "program_rest"):
        requests = generate(TrafficSpec.model_validate(spec)).requests
        served(requests, queue)
        ends = np.zeros(40)
        np.maximum.at(ends, requests.group, requests.finish_s)
        means[queue] = ends.mean()
    assert means["program_rest"] < means["fcfs"]


def test_agents_hand_their_objective_to_their_calls() -> None:
    calls = [{"id": "a", "input_tokens": 40, "output_tokens": 5}]
    agents = [{"name": "x", "latency_s": 7, "calls": calls}, {"name": "y", "calls": calls}]
    spec = TrafficSpec.model_validate({"offline": True, "num_requests": 20, "agents": agents})
    requests = generate(spec).requests
    assert set(requests.deadline_s[requests.tenant == 0]) == {7.0}
    assert np.isinf(requests.deadline_s[requests.tenant == 1]).all()


def unlike(rule: str = "speed_and_queue", **knobs: Any) -> Requests:
    """Forty requests on a fast instance and on one that takes three times as long."""
    spec = {"rate_per_s": 8.0, "num_requests": 40, "input_tokens": 200, "output_tokens": 30}
    requests = generate(TrafficSpec.model_validate(spec)).requests
    tables = np.stack([np.stack([LINEAR * k, np.zeros_like(LINEAR)]) for k in (1.0, 3.0)])
    fleet = Fleet(
        limits=(LIMITS, LIMITS),
        tables=tables,
        pool=np.array([0, 1]),
        prefill_only=np.zeros(2, np.bool_),
        entries=2,
        kv_transfer=None,
        overlaps=(None, None),
        stages=(None, None),
    )
    own = ROUTERS.get(rule)
    router = own.twin(Rule.ROUND_ROBIN, 0)
    router.context = context(1, **({name: knob.default for name, knob in own.knobs.items()} | knobs))
    reference.serve_fleet(requests, fleet, LoopRules(router=router))
    return requests


def test_alpha_1_sends_everything_where_it_is_fastest() -> None:
    assert (unlike(alpha=1.0).instance == 0).all()


def test_alpha_0_sends_where_least_waits() -> None:
    share = (unlike(alpha=0.0).instance == 0).mean()
    assert 0.5 < share < 0.9  # both are used, the fast one more: what it has is done sooner


def test_speed_and_queue_is_faster_than_either_turn() -> None:
    ends = [float(np.mean(r.finish_s - r.arrival_s)) for r in (unlike(alpha=0.0, beta=1e9), unlike(alpha=0.2))]
    assert ends[1] <= ends[0] * 1.0001


def test_balanced_work_gives_each_instance_its_seconds() -> None:
    """Three quarters of equal calls go to the instance that is three times as fast; by half counted work, fewer."""
    fast = (unlike("workload_balance", alpha=0.0).instance == 0).mean()
    assert fast == pytest.approx(0.75, abs=0.05)
    less = (unlike("workload_balance", alpha=0.0, slower_share=0.5).instance == 0).mean()
    assert less == pytest.approx(0.6, abs=0.05)
    assert (unlike("workload_balance", alpha=1.0).instance == 0).all()


@pytest.mark.parametrize("queue", ["program_deadline", "program_slack", "program_rest", "stage_urgency"])
def test_programs_are_ordered_in_split_pools_too(queue: str) -> None:
    from windtunnel import api

    agent = {
        "name": "research",
        "latency_s": 60,
        "calls": [
            {"id": "plan", "input_tokens": 250, "output_tokens": 20},
            {"id": "search", "after": ["plan"], "repeat": 2, "input_tokens": 300, "output_tokens": 20, "tool_s": 0.1},
        ],
    }
    result = api.simulate_serving(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
            "serving": {
                "pools": [{"role": role, "plan": {"tp": 1}, "queue": queue} for role in ("prefill", "decode")],
                "traffic": {"num_requests": 24, "rate_per_s": 8, "agents": [agent]},
            },
        }
    )
    assert result.to_dict()["completed"] == 72
