"""Tools, quorums and cancelled branches of programs, as the loop runs them."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.serving.deployment import prepare
from windtunnel.serving.event_loop.requests import CANCELLED, DONE
from windtunnel.serving.simulate import serve_requests
from windtunnel.serving.traffic.program_graph import ProgramGraph

SERVED = {
    "model": "Qwen/Qwen3-0.6B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
    "serving": {"traffic": {"offline": True, "num_requests": 1, "input_tokens": 1, "output_tokens": 1}},
}


def test_the_first_of_several_takes_the_others_back() -> None:
    graph = ProgramGraph(np.zeros(2))
    both = np.arange(2)
    who = np.repeat(both, 3)
    samples = graph.call(who, new=50, output=np.array([400, 40, 300, 30, 500, 600]))
    rows = samples.reshape(2, 3)
    first = graph.join(both, after=rows, needs=1, cancels=(rows[:, 0], rows[:, 2]))
    last = graph.call(both, new=20, output=5, after=first)
    drawn = graph.finish()
    serve_requests(prepare(SERVED), drawn.requests)
    q = drawn.requests
    own = q.state[drawn.number[samples]]
    assert own.tolist() == [CANCELLED, DONE, CANCELLED, DONE, CANCELLED, CANCELLED]
    assert (q.generated_tokens[drawn.number[samples]] < [400, 41, 300, 31, 500, 600]).all()
    assert q.after is not None
    over = q.after.over_s[drawn.number[first] - len(q)]
    np.testing.assert_allclose(over, q.finish_s[drawn.number[samples[[1, 3]]]])
    assert (q.arrival_s[drawn.number[last]] == over).all()


def test_tools_wait_for_a_slot_of_their_class() -> None:
    graph = ProgramGraph(np.zeros(4), servers=(1,))
    every = np.arange(4)
    calls = graph.call(every, new=50, output=10)
    tools = graph.tool(every, seconds=np.full(4, 2.0), after=calls, server=0)
    graph.call(every, context=calls, new=5, output=3, after=tools)
    drawn = graph.finish()
    serve_requests(prepare(SERVED), drawn.requests)
    q = drawn.requests
    assert q.after is not None
    over = np.sort(q.after.over_s)
    np.testing.assert_allclose(np.diff(over), 2.0)
    assert (q.state == DONE).all()


@pytest.mark.parametrize("needs", [1, 2, 3])
def test_a_quorum_is_met_by_the_earliest(needs: int) -> None:
    graph = ProgramGraph(np.zeros(1))
    one = np.zeros(1, np.int64)
    samples = graph.call(np.zeros(3, np.int64), new=10, output=np.array([30, 10, 20]))
    join = graph.join(one, after=samples[None, :], needs=needs)
    drawn = graph.finish()
    serve_requests(prepare(SERVED), drawn.requests)
    q = drawn.requests
    assert q.after is not None
    over = q.after.over_s[drawn.number[join] - len(q)]
    assert over[0] == np.sort(q.finish_s)[needs - 1]
