"""Small programs by hand: who is sent when, what a tool server's queue does, what is taken back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from program_cases import dependencies

from windtunnel.errors import BadInput
from windtunnel.kernel_cache import always_compiled
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.request_graph import Dependencies
from windtunnel.serving.event_loop.requests import CANCELLED, DONE, Requests

FLAT = np.full(20_000, 0.01)
"""Every iteration and every decode step takes 10 ms."""


def calls(after: Dependencies, output: list[int], **more: Any) -> Requests:
    heads = after.parents[: len(output)] == 0
    return Requests(
        arrival_s=np.where(heads, 0.0, np.nan),
        input_tokens=np.full(len(output), 10, np.int32),
        output_tokens=np.array(output, np.int32),
        after=after,
        **more,
    )


def run(after: Dependencies, output: list[int], limits: Limits | None = None, **more: Any) -> Requests:
    """Serve in both loops, which have to agree."""
    limits = limits or Limits(max_seqs=8)
    a, b = calls(after, output, **more), calls(after, output, **more)
    reference.serve(a, FLAT, limits, 1)
    over_s = after.over_s.copy()
    with always_compiled():
        loop.serve(b, FLAT, limits, 1)
    for name in ("arrival_s", "finish_s", "state", "generated_tokens"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    np.testing.assert_array_equal(after.over_s, over_s)
    return b


def ints(*rows: Any) -> Any:
    return np.array(rows, np.int32)


def test_the_second_of_three_is_enough() -> None:
    """Three samples of 5, 10 and 15 tokens; the judge starts with the second and the third is taken back."""
    after = dependencies([[4], [4], [4], [], [3]], [0] * 4, needs=ints(0, 0, 0, 1, 2), cancels=ints([0, 3]))
    q = run(after, [5, 10, 15, 2])
    np.testing.assert_allclose(after.over_s, [0.10])
    np.testing.assert_allclose(q.finish_s, [0.05, 0.10, 0.10, 0.12])
    assert q.state.tolist() == [DONE, DONE, CANCELLED, DONE]
    assert q.generated_tokens.tolist() == [5, 10, 10, 2]


def test_a_call_taken_back_by_a_tool_ends_with_the_step_under_way() -> None:
    """A 33 ms tool after a call of 1 token takes a call of 100 tokens back: at 43 ms, so with its fifth step."""
    after = dependencies([[2], [], []], [0, 0], seconds=np.array([0.033]), cancels=ints([1, 2]))
    q = run(after, [1, 100])
    assert after.over_s[0] == pytest.approx(0.043)
    assert q.finish_s[1] == pytest.approx(0.05)
    assert q.generated_tokens.tolist() == [1, 5]


def test_queued_and_unsent_calls_never_start() -> None:
    """One sequence at a time: the first accept takes back one that is queued and one that waits for it."""
    after = dependencies([[3], [2], [], []], [0] * 3, cancels=ints([1, 3]))
    q = run(after, [4, 4, 4], Limits(max_seqs=1))
    assert q.state.tolist() == [DONE, CANCELLED, CANCELLED]
    assert q.generated_tokens.tolist() == [4, 0, 0]
    assert np.isnan(q.scheduled_s).tolist() == [False, True, True]
    assert q.finish_s[1] == q.finish_s[0]
    assert np.isnan(q.arrival_s[2])
    assert np.isnan(q.finish_s[2])


def test_one_slot_serves_tools_in_turn() -> None:
    """Calls of 1, 2 and 3 tokens are each followed by a tool of 1 s, of which one runs at a time."""
    after = dependencies(
        [[3], [4], [5], [], [], []], [0] * 3, seconds=np.ones(3), server=ints(0, 0, 0), servers=ints(1)
    )
    run(after, [1, 2, 3])
    np.testing.assert_allclose(after.over_s, [1.01, 2.01, 3.01])
    after = dependencies(
        [[3], [4], [5], [], [], []], [0] * 3, seconds=np.ones(3), server=ints(0, 0, 0), servers=ints(2)
    )
    run(after, [1, 2, 3])
    np.testing.assert_allclose(after.over_s, [1.01, 1.02, 2.01])


def test_a_cancelled_tool_gives_its_slot_back_at_once() -> None:
    """The tool of call 0 runs 10 s; a joint after call 2, over at 30 ms, takes it back: the tool of call 1 begins."""
    after = dependencies(
        [[3], [4], [5], [], [], []],
        [0] * 3,
        seconds=np.array([10.0, 1.0, 0.0]),
        server=ints(0, 0, -1),
        servers=ints(1),
        cancels_joints=ints([0, 0], [0, 0], [0, 1]),
    )
    run(after, [1, 2, 3])
    np.testing.assert_allclose(after.over_s, [np.nan, 1.03, 0.03])


def test_what_can_no_more_be_brought_on_is_cancelled_too() -> None:
    """Call 2 waits for both samples, of which one is taken back; call 3 needs one of them only."""
    after = dependencies([[4, 2, 3], [2, 3], [], [], []], [0] * 4, needs=ints(0, 0, 2, 1, 1), cancels=ints([1, 2]))
    q = run(after, [2, 9, 5, 5])
    assert q.state.tolist() == [DONE, CANCELLED, CANCELLED, DONE]


@pytest.mark.parametrize("in_python", [True, False])
def test_a_closed_loop_counts_tasks_whose_tools_are_over(in_python: bool) -> None:
    """Three tasks of two calls at once and a tool of 1 s last; one task in flight."""
    children = [[6], [6], [7], [7], [8], [8], [], [], []]
    after = dependencies(children, [0, 0, 1, 1, 2, 2], seconds=np.ones(3))
    q = calls(after, [2, 3] * 3)
    limits = Limits(concurrency=1)
    if in_python:
        reference.serve(q, FLAT, limits, 1)
    else:
        with always_compiled():
            loop.serve(q, FLAT, limits, 1)
    np.testing.assert_allclose(q.arrival_s, np.repeat([0.0, 1.03, 2.06], 2))
    np.testing.assert_allclose(after.over_s, [1.03, 2.06, 3.09])


def test_what_no_run_could_end_is_refused() -> None:
    with pytest.raises(BadInput, match="cycle"):
        dependencies([[1], [2], [1]], [0, 0, 0]).check()
    with pytest.raises(BadInput, match="joint 0 waits for nothing"):
        dependencies([[], [0]], [0]).check()
    with pytest.raises(BadInput, match=r"needs.*from 1 to 1"):
        dependencies([[1], []], [0, 0], needs=ints(0, 2)).check()
    with pytest.raises(BadInput, match=r"seconds.*shape"):
        dependencies([[1], []], [0], seconds=np.zeros(2)).check()
    with pytest.raises(BadInput, match=r"server.*class"):
        dependencies([[1], []], [0], server=ints(0)).check()
    with pytest.raises(BadInput, match="at least 1"):
        dependencies([[1], []], [0], server=ints(0), servers=ints(0)).check()
    with pytest.raises(BadInput, match="own task"):
        dependencies([[2], [], []], [0, 1], cancels=ints([0, 2])).check()
    with pytest.raises(BadInput, match="within 0 and 2"):
        dependencies([[2], [], []], [0, 0], cancels=ints([0, 3])).check()
    with pytest.raises(BadInput, match=r"(?s)needs.*seconds"):
        dependencies([[1], []], [0], seconds=np.zeros(2), needs=ints(0)).check()
