"""Verifiers and other models on instances of their own, in one loop with those that answer."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_rules_of_one_model_alone_are_refused() -> None:
    tiered = deployment("Qwen/Qwen3-0.6B", pools=[{"queue": "vtc"}])
    with pytest.raises(BadInput, match="one model alone"):
        serve_side_by_side([tiered, deployment("Qwen/Qwen3-8B")], programs(scored=True).finish().requests)
