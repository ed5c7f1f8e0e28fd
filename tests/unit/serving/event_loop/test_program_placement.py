"""Where calls of programs go and what they leave there: kept and dropped blocks, gangs, several models in one loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from program_cases import dependencies

from windtunnel.errors import BadInput
from windtunnel.kernel_cache import always_compiled
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.fleet import join_fleets, single_pool
from windtunnel.serving.event_loop.instance_limits import Limits, Router
from windtunnel.serving.event_loop.prompt_content import Content
from windtunnel.serving.event_loop.requests import DONE, Requests
from windtunnel.serving.routers import ROUTERS

FLAT = np.full(20_000, 0.01)
"""Every iteration and every decode step takes 10 ms."""
LIMITS = Limits(max_seqs=8, block=10, blocks=40, caching=True)


def paused(keep_s: float, *, beside: bool = True, limits: Limits = LIMITS) -> Requests:
    """A call of ten blocks, a tool of 1 s, and a call that goes on from it; after 0.5 s another of 25 blocks comes.

    With `beside`, a fourth call decodes all the time and holds up to 16 blocks.
    """
    rows = 4 if beside else 3
    after = dependencies([[rows], *([[]] * (rows - 1)), [1]], [0, 0, 1, 2][:rows], seconds=np.ones(1))
    content = Content(
        np.array([0, 1, 3, 4, 5][: rows + 1]),
        np.array([0, 0, 1, 2, 3][: rows + 1], np.int32),
        np.array([101, 10, 251, 160][:rows]),
    )
    out = Requests(
        arrival_s=np.array([0.0, np.nan, 0.5, 0.0])[:rows],
        input_tokens=np.array([100, 110, 250, 10], np.int32)[:rows],
        output_tokens=np.array([1, 1, 1, 150], np.int32)[:rows],
        keep_s=np.array([keep_s, 0.0, 0.0, 0.0])[:rows],
        content=content,
        after=after,
    )
    twin = replace(out, arrival_s=out.arrival_s.copy(), cached_tokens=np.zeros(rows, np.int32))
    for name in ("scheduled_s", "finish_s", "state", "generated_tokens", "first_token_s", "instance", "preemptions"):
        setattr(twin, name, getattr(out, name).copy())
    reference.serve(twin, FLAT, limits, 1)
    with always_compiled():
        outcome = loop.serve(out, FLAT, limits, 1)
    for name in ("arrival_s", "scheduled_s", "finish_s", "cached_tokens", "state"):
        np.testing.assert_array_equal(getattr(out, name), getattr(twin, name), err_msg=name)
    assert (out.state == DONE).all()
    assert outcome.totals["kv_max"].max() <= limits.blocks
    return out


def test_kept_blocks_outlast_the_pause_and_make_others_wait() -> None:
    left, kept, expired = paused(0.0), paused(5.0), paused(0.2)
    assert left.scheduled_s[2] == pytest.approx(0.5, abs=0.011)
    assert left.cached_tokens[1] < 100
    # 10 blocks kept and 7 or more beside: the prompt of 25 waits until the decode ends, the next call behind it
    assert kept.scheduled_s[1:3].tolist() == pytest.approx([1.5, 1.5])
    assert kept.finish_s[3] == pytest.approx(1.5)
    assert kept.cached_tokens[1] == 100
    assert expired.scheduled_s[2] == left.scheduled_s[2]
    assert expired.cached_tokens[1] == left.cached_tokens[1]


def test_kept_blocks_give_way_where_nothing_else_could_run() -> None:
    kept = paused(float("inf"), beside=False, limits=replace(LIMITS, blocks=30))
    assert kept.scheduled_s[2] == pytest.approx(0.5)
    assert kept.cached_tokens[1] < 100


def test_dropped_blocks_are_computed_again() -> None:
    assert paused(0.0, beside=False).cached_tokens[1] == 100
    assert paused(-1.0, beside=False).cached_tokens[1] == 0


def two(**more: Any) -> Requests:
    return Requests(
        arrival_s=np.array([0.0, 10.0]),
        input_tokens=np.array([1000, 1000], np.int32),
        output_tokens=np.array([2, 2], np.int32),
        **more,
    )


@pytest.mark.parametrize("in_python", [True, False])
def test_reused_tokens_are_not_computed(in_python: bool) -> None:
    """1,000 tokens take 1 s; 400 of the second prompt come from other calls, and at least one token is computed."""
    linear = np.arange(20_000) * 1e-3
    for reused, computed in ((400, 600), (5000, 1)):
        requests = two(reused_tokens=np.array([0, reused], np.int32))
        limits = Limits(budget=8192)
        if in_python:
            outcome = loop.serve_in_python(requests, linear, limits, 1)
        else:
            with always_compiled():
                outcome = loop.serve(requests, linear, limits, 1)
        assert (requests.first_token_s - requests.arrival_s).tolist() == pytest.approx([1.0, computed * 1e-3])
        assert outcome.totals["prompt_tokens"].sum() == 1000 + computed
        assert outcome.totals["hit_tokens"].sum() == 0  # no prefix was found


@pytest.mark.parametrize("in_python", [True, False])
def test_a_gang_stays_where_load_was_least_when_it_began(in_python: bool) -> None:
    requests = Requests(
        arrival_s=np.arange(6) * 1e-3,
        input_tokens=np.array([500, 10, 10, 10, 10, 10], np.int32),
        output_tokens=np.full(6, 50, np.int32),
        group=np.array([7, 3, 3, 9, 7, 3], np.int32),
    )
    limits = Limits(router=Router.GANG)
    assert ROUTERS.get("gang").rule is Router.GANG
    if in_python:
        reference.serve(requests, FLAT, limits, 3)
    else:
        with always_compiled():
            loop.serve(requests, FLAT, limits, 3)
    assert requests.instance.tolist() == [0, 1, 1, 2, 0, 1]


def alone(count: int, output: int) -> Requests:
    return Requests(
        arrival_s=np.arange(count) * 0.02,
        input_tokens=np.full(count, 100, np.int32),
        output_tokens=np.full(count, output, np.int32),
    )


@pytest.mark.parametrize("router", [Router.ROUND_ROBIN, Router.RANDOM, Router.POWER_OF_TWO, Router.LEAST_TOKENS])
@pytest.mark.parametrize("in_python", [True, False])
def test_fleets_side_by_side_serve_as_each_alone(router: Router, in_python: bool) -> None:
    """Two models that nobody asks in one program: bit by bit what two runs give."""
    small = single_pool(Limits(router=router, max_seqs=4), FLAT, 2)
    large = single_pool(Limits(router=router, max_seqs=2, block=32), 3 * FLAT, 3)
    x, y = alone(40, 30), alone(30, 20)
    both = Requests(
        arrival_s=np.concatenate([x.arrival_s, y.arrival_s]),
        input_tokens=np.concatenate([x.input_tokens, y.input_tokens]),
        output_tokens=np.concatenate([x.output_tokens, y.output_tokens]),
        pool=np.repeat([0, 1], [40, 30]).astype(np.int32),
    )
    serve = loop.serve_fleet_in_python if in_python else loop.serve_fleet
    with always_compiled():
        outcome = serve(both, join_fleets([small, large]))
        first, second = serve(x, small), serve(y, large)
    np.testing.assert_array_equal(both.finish_s, np.concatenate([x.finish_s, y.finish_s]))
    np.testing.assert_array_equal(both.instance, np.concatenate([x.instance, y.instance + 2]))
    np.testing.assert_array_equal(outcome.totals[:2]["used_s"], first.totals["used_s"])
    np.testing.assert_array_equal(outcome.totals[2:]["used_s"], second.totals["used_s"])


def test_what_does_not_go_together_is_refused() -> None:
    one = single_pool(Limits(caching=True), FLAT, 1)
    other = single_pool(Limits(caching=True, block=32, seed=3, concurrency=4), FLAT, 1)
    with pytest.raises(BadInput, match=r"(?s)concurrency.*seed.*block"):
        join_fleets([one, other])
    with pytest.raises(BadInput, match="at least one"):
        join_fleets([])
    with pytest.raises(BadInput, match=r"pool.*from 0 to 0"):
        loop.serve_fleet(two(pool=np.array([0, 1], np.int32)), one)
    with pytest.raises(BadInput, match="keep_s"):
        loop.serve_fleet(two(keep_s=np.array([0.0, -2.0])), one)
    with pytest.raises(BadInput, match="reused_tokens"):
        loop.serve_fleet(two(reused_tokens=np.array([0, -2], np.int32)), one)
