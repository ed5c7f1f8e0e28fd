"""The request loop: the jitted one equals its twin bit for bit, jumps equal steps, nothing is lost or over capacity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from event_loop_cases import TIMES, scenario

from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.requests import DONE, REJECTED, Requests


def test_kernel_equals_its_twin() -> None:
    preempted = rejected = found = 0
    for seed in range(150):
        (a, linear, limits, n), (b, *_) = scenario(seed), scenario(seed)
        loop.serve(a, linear, limits, n)
        reference.serve(b, linear, limits, n)
        for name in (*TIMES, "preemptions", "instance", "state", "cached_tokens"):
            assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), (seed, name)
        preempted, rejected = preempted + a.preemptions.sum(), rejected + (a.state == REJECTED).sum()
        found += int(a.cached_tokens.any())
    assert preempted > 80  # the cases reach what they are for
    assert rejected > 10
    assert found > 20


def test_the_twin_leaves_the_same_sums_and_events() -> None:
    for seed in range(500, 540):
        (a, linear, limits, n), (b, *_) = scenario(seed), scenario(seed)
        x, y = loop.serve(a, linear, limits, n), loop.serve_in_python(b, linear, limits, n)
        for name in x.totals.dtype.names:
            np.testing.assert_allclose(x.totals[name], y.totals[name], rtol=1e-12, err_msg=f"{seed} {name}")
        np.testing.assert_array_equal(x.between_tokens, y.between_tokens)
        assert x.series.tolist() == y.series.tolist()


def test_jumps_equal_steps() -> None:
    for seed in range(200, 240):
        (a, linear, limits, n), (b, *_) = scenario(seed), scenario(seed)
        loop.serve(a, linear, limits, n)
        reference.serve(b, linear, limits, n, jumps=False)
        if limits.poll == 1:
            assert np.array_equal(a.preemptions, b.preemptions), seed
            for name in TIMES:
                x, y = getattr(a, name), getattr(b, name)
                np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11, err_msg=str(seed))


@pytest.mark.parametrize("seed", range(300, 330))
def test_no_request_is_lost_and_the_cache_never_overflows(seed: int) -> None:
    requests, linear, limits, n = scenario(seed)
    outcome = loop.serve(requests, linear, limits, n)
    assert set(requests.state.tolist()) <= {DONE, REJECTED}
    done = requests.state == DONE
    assert (requests.first_token_s[done] <= requests.finish_s[done]).all()
    assert (requests.scheduled_s[done] >= requests.arrival_s[done]).all()
    assert outcome.totals["kv_max"].max(initial=0) <= limits.blocks
    assert outcome.totals["running_max"].max(initial=0) <= limits.max_seqs
    # every token after the first is one time between tokens, and was made by one decode step, or by computing a
    # request again that had been preempted
    steps = requests.output_tokens[done].sum() - done.sum()
    assert outcome.between_tokens.sum() >= outcome.totals["decode_tokens"].sum()
    if limits.step_tokens == 1:
        assert outcome.between_tokens.sum() == steps
        assert outcome.totals["decode_tokens"].sum() == pytest.approx(steps - requests.preemptions[done].sum())
    else:
        assert outcome.totals["decode_tokens"].sum() >= (steps - requests.preemptions[done].sum()) / limits.step_tokens


@pytest.mark.parametrize("seed", range(400, 420))
def test_littles_law(seed: int) -> None:
    """Mean number in an instance = arrival rate · mean time in it, over a run from empty to empty."""
    requests, linear, limits, n = scenario(seed)
    outcome = loop.serve(requests, linear, replace(limits, blocks=10**6), n)  # nothing is preempted on the way
    assert (requests.state == DONE).all()
    assert outcome.totals["running_s"].sum() == pytest.approx((requests.finish_s - requests.scheduled_s).sum())


def test_a_prompt_is_computed_by_one_rank() -> None:
    """Eight ranks: one prompt takes as long as eight of them at once; eight decodes spread evenly."""
    own = np.arange(9000) * 1e-5
    tables = np.stack([own + 0.001, own])
    first = {}
    for prompts, ranks in ((1, 1), (1, 8), (8, 8), (9, 8)):
        requests = Requests(
            arrival_s=np.zeros(prompts),
            input_tokens=np.full(prompts, 800, np.int32),
            output_tokens=np.full(prompts, 1, np.int32),
        )
        loop.serve(requests, tables, Limits(ranks=ranks, pair_s=1e-9, budget=8192), 1)
        first[prompts, ranks] = requests.first_token_s.max()
    assert first[1, 8] == pytest.approx(0.001 + 8 * (800e-5 + 1e-9 * 800**2 / 2))
    assert first[8, 8] == pytest.approx(first[1, 8])
    assert first[1, 1] == pytest.approx(0.001 + 800e-5 + 1e-9 * 800**2 / 2)
    assert first[9, 8] > 1.2 * first[8, 8]


def drafted(pace: float, k: int = 3, **other: Any) -> tuple[Requests, Any]:
    """Sixteen alike requests of 100 tokens, on an instance that drafts k tokens."""
    table = np.full((4, 9000), 0.01)
    table[1:] = 0.0
    requests = Requests(
        arrival_s=np.zeros(16), input_tokens=np.full(16, 64, np.int32), output_tokens=np.full(16, 101, np.int32)
    )
    limits = Limits(tokens_per_step=round(pace * 1e6), step_tokens=k + 1, lookahead=k, **other)
    return requests, loop.serve(requests, table, limits, 1)


def test_a_step_that_makes_several_tokens_takes_fewer_steps() -> None:
    for pace in (1.0, 1.25, 2.0, 2.6, 4.0):
        requests, outcome = drafted(pace)
        steps = np.ceil(100 / pace - 1e-9)
        np.testing.assert_allclose(requests.finish_s - requests.first_token_s, steps * 0.01)
        assert outcome.totals["iterations"].sum() == 1 + steps


def test_slots_of_drafted_tokens_are_held() -> None:
    """No sequence needs a block for its tokens alone (64 + 101 in blocks of 168), only for those that are drafted."""
    _, none = drafted(1.0, k=0, block=168)
    _, some = drafted(1.0, k=8, block=168)
    assert none.totals["kv_max"].sum() == 16
    assert some.totals["kv_max"].sum() == 32


def test_a_prompt_fills_its_own_ranks_budget_only() -> None:
    """Eight long prompts on eight ranks are computed side by side, as soon as one alone."""
    tables = np.stack([1e-6 * np.arange(8 * 1024 + 8.0), 1e-6 * np.arange(8 * 1024 + 8.0)])
    first = {}
    for prompts in (1, 8):
        requests = Requests(
            arrival_s=np.zeros(prompts),
            input_tokens=np.full(prompts, 8192, np.int32),
            output_tokens=np.ones(prompts, np.int32),
        )
        loop.serve(requests, tables, Limits(ranks=8, budget=8 * 1024, max_seqs=64), 1)
        first[prompts] = requests.first_token_s.max()
    assert first[8] == pytest.approx(first[1])
