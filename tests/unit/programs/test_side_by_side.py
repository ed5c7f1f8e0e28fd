"""Verifiers and other models on instances of their own, in one loop with those that answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.serving.deployment import Deployment, prepare
from windtunnel.serving.side_by_side import serve_side_by_side
from windtunnel.serving.simulate import serve_requests
from windtunnel.serving.traffic.program_graph import ProgramGraph


def deployment(model: str, **serving: object) -> Deployment:
    return prepare(
        {
            "model": model,
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
            "serving": {
                **serving,
                "traffic": {"offline": True, "num_requests": 4, "input_tokens": 1, "output_tokens": 1},
            },
        }
    )


def programs(scored: bool) -> ProgramGraph:
    graph = ProgramGraph(np.zeros(4))
    every = np.arange(4)
    question = graph.text(every, np.array([200, 300, 400, 500]))
    answers = graph.call(every, context=question, output=np.array([20, 30, 40, 50]))
    if scored:
        graph.call(every, context=question, joined=answers, new=10, output=1, pool=1)
    return graph


def test_answers_are_served_as_alone_where_scores_have_instances_of_their_own() -> None:
    small, large = deployment("Qwen/Qwen3-0.6B"), deployment("Qwen/Qwen3-8B")
    alone = programs(scored=False).finish().requests
    serve_requests(large, alone)
    drawn = programs(scored=True).finish()
    q = drawn.requests
    answered, scored = serve_side_by_side([large, small], q)
    mine = q.pool == 0
    np.testing.assert_allclose(q.finish_s[mine], alone.finish_s, rtol=1e-12)
    np.testing.assert_array_equal(q.arrival_s[~mine], q.finish_s[mine])
    assert (q.instance[mine] == 0).all() and (q.instance[~mine] == 1).all()
    assert answered.completed == scored.completed == 4
    assert answered.num_devices == scored.num_devices == 1
    assert scored.ttft_s.mean < answered.e2e_s.mean
    assert answered.power["energy_j"] > 0 and scored.power["energy_j"] > 0


@pytest.mark.parametrize(
    ("serving", "field"),
    [
        ({"autoscale": {"min": 1, "max": 1, "signal": "concurrency", "target": 8}}, "serving.autoscale"),
        ({"pools": [{"admission": {"max_waiting": {"requests": 3}}}]}, "admission"),
        ({"pools": [{"kv": {"swap_space_bytes": 1e9, "swap": {"group_blocks": 20}}}]}, "kv.swap"),
    ],
)
def test_rules_of_one_model_alone_are_refused(serving: dict[str, Any], field: str) -> None:
    own = deployment("Qwen/Qwen3-0.6B", **serving)
    with pytest.raises(BadInput, match="one model alone") as caught:
        serve_side_by_side([own, deployment("Qwen/Qwen3-8B")], programs(scored=True).finish().requests)
    assert field in str(caught.value)


def test_a_queue_in_python_orders_every_model_as_the_jitted_one_does() -> None:
    """`priority_preempt` with one class and no preemption is first come, first served: the loops agree to the bit."""
    times = []
    for queue in ("fcfs", "priority_preempt"):
        pair = [deployment(name, pools=[{"queue": queue}]) for name in ("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B")]
        drawn = programs(scored=True).finish().requests
        serve_side_by_side(pair, drawn)
        times.append(drawn.finish_s)
    np.testing.assert_array_equal(times[0], times[1])


def test_tiers_are_of_the_model_that_states_them() -> None:
    tiers = [{"kv": {"tiers": [{"kind": "host", "capacity_bytes": "10 GB"}]}}]
    pair = [deployment("Qwen/Qwen3-8B", pools=tiers), deployment("Qwen/Qwen3-0.6B")]
    answered, scored = serve_side_by_side(pair, programs(scored=True).finish().requests)
    assert "host" in answered.kv_tiers and not scored.kv_tiers
    assert answered.completed == scored.completed == 4


@pytest.mark.parametrize(
    ("of_its_own", "answering", "devices"), [({}, 3, 4), ({"cluster": "dgx-h100"}, 4, 5), ({"replicas": 2}, 2, 4)]
)
def test_a_verifier_takes_devices_of_the_cluster_unless_it_has_its_own(
    of_its_own: dict[str, Any], answering: int, devices: int
) -> None:
    result = api.simulate_programs(
        {
            "model": "Qwen/Qwen3-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
            "programs": {
                "strategies": [{"best_of_n": {"n": 2, "selector": s}} for s in ("verifier", "majority")],
                "verifier": {"model": "Qwen/Qwen3-0.6B", "plan": {"tp": 1}, "separation": 0.8, **of_its_own},
                "problems": 8,
                "offline": True,
                "input_tokens": 50,
                "output_tokens": 20,
            },
            "population": {"beta": {"a": 1.0, "b": 1.0}},
        }
    )
    scored, voted = result.points
    assert (scored.num_devices, voted.num_devices) == (devices, 4)
    told = {int(value) for field, value, _ in result.assumed if field == "serving.replicas"}
    assert told == {answering, 4}
