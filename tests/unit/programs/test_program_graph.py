"""Programs as requests: prompts, content, who waits for whom."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.errors import BadInput
from windtunnel.serving.traffic.program_graph import ProgramGraph


def test_samples_share_the_problem_and_a_join_waits_for_all() -> None:
    graph = ProgramGraph(np.array([0.0, 5.0]))
    both = np.arange(2)
    system = graph.shared_text(10)
    question = graph.text(both, np.array([100, 200]), context=system)
    who = np.repeat(both, 3)
    samples = graph.call(who, context=question[who], output=np.arange(1, 7))
    join = graph.join(both, after=samples.reshape(2, 3))
    last = graph.call(both, context=question, joined=samples.reshape(2, 3), new=5, output=7, after=join)
    drawn = graph.finish()
    q = drawn.requests
    assert q.input_tokens.tolist() == [110, 110, 110, 110 + 6 + 5, 210, 210, 210, 210 + 15 + 5]
    assert q.output_tokens.tolist() == [1, 2, 3, 7, 4, 5, 6, 7]
    assert q.group.tolist() == [0] * 4 + [1] * 4
    np.testing.assert_array_equal(q.arrival_s, [0, 0, 0, np.nan, 5, 5, 5, np.nan])
    assert q.after is not None and q.content is not None
    assert drawn.number[join].tolist() == [8, 9]
    assert drawn.number[last].tolist() == [3, 7]
    children = {i: q.after.children[q.after.start[i] : q.after.start[i + 1]].tolist() for i in range(10)}
    assert children[0] == [8, 3] and children[4] == [9, 7]
    assert children[8] == [3] and children[9] == [7]
    # the first sample computes its whole prompt, the next ones find system prompt and problem but the last token
    assert q.prefix_tokens.tolist() == [0, 109, 109, 110, 10, 209, 209, 210]


def test_calls_go_on_from_earlier_calls() -> None:
    graph = ProgramGraph(np.zeros(1))
    one = np.arange(1)
    first = graph.call(one, new=50, output=20)
    second = graph.call(one, context=first, new=5, output=9)
    q = graph.finish().requests
    assert q.input_tokens.tolist() == [50, 75]
    assert q.content is not None
    assert q.content.tokens.tolist() == [70, 14]
    assert q.content.nodes.tolist() == [0, 0, 1]
    assert second.tolist() == [1]


def test_a_join_of_nothing_is_refused() -> None:
    graph = ProgramGraph(np.zeros(2))
    calls = graph.call(np.arange(1), new=5, output=5)
    with pytest.raises(BadInput, match="waits for nothing"):
        graph.join(np.arange(2), after=np.array([[calls[0]], [-1]]))


def test_prompts_beyond_what_a_request_holds_are_refused() -> None:
    graph = ProgramGraph(np.zeros(1))
    graph.call(np.arange(1), new=2**31, output=5)
    with pytest.raises(BadInput, match="would grow to"):
        graph.finish()


def test_many_nodes_grow_the_table() -> None:
    graph = ProgramGraph(np.zeros(5000))
    every = np.arange(5000)
    last = graph.call(every, new=3, output=2)
    for _ in range(4):
        last = graph.call(every, context=last, new=1, output=1)
    q = graph.finish().requests
    assert len(q) == 25_000
    assert q.input_tokens[:5].tolist() == [3, 6, 8, 10, 12]
    assert q.input_tokens[-5:].tolist() == [3, 6, 8, 10, 12]
