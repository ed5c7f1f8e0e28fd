"""The request loop: the jitted one equals its twin bit for bit, jumps equal steps, nothing is lost or over capacity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from windtunnel.importers.traces.record import PrefixBlocks
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.requests import DONE, REJECTED, Requests

TIMES = ("scheduled_s", "first_token_s", "finish_s", "arrival_s")


def further(g: np.random.Generator) -> dict[str, Any]:
    """Switches that few engines have, each now and then."""
    found: dict[str, Any] = {}
    if g.random() < 0.3:
        found |= {"sequence_blocks": int(g.integers(0, 3)), "window_share": float(g.choice([0.0, 0.25, 5.0]))}
    if g.random() < 0.3:
        found |= {"reserve_length": int(g.integers(1, 300))}
    if g.random() < 0.3:
        start = int(g.integers(1, 1_000_000))
        found |= {"ratio_start": start, "ratio_least": start // 7, "ratio_decay": start // 100, "retract": 20}
    if g.random() < 0.3:
        found |= {"swap_blocks": int(g.integers(1, 100)), "swap_block": 1e-4}
    if g.random() < 0.3:
        found |= {"ranks": int(g.integers(1, 9)), "prompt_token": float(g.choice([0.0, 1e-5]))}
        found |= {"cp": int(g.integers(1, 5))}
    if g.random() < 0.2:
        found |= {"reach": float(g.uniform(1, 300)), "index_share": float(g.uniform(0, 0.5))}
    if g.random() < 0.4:
        found |= {"least_made": True, "taken_last": bool(g.random() < 0.5)}
    return found | {"caching": bool(g.random() < 0.5), "early": bool(g.random() < 0.5)}


def scenario(seed: int) -> tuple[Requests, np.ndarray, Limits, int]:
    """Random requests, costs, limits, policy switches and instances."""
    g = np.random.default_rng(seed)
    n = int(g.integers(1, 60))
    linear = g.uniform(0.005, 0.03) + np.arange(6000) * g.uniform(1e-6, 5e-5)
    if seed % 2:
        linear = np.stack([linear, 0.7 * (linear - linear[0])])
    inputs, outputs = g.integers(1, 400, n).astype(np.int32), g.integers(1, 120, n).astype(np.int32)
    closed = int(g.integers(0, 2)) * int(g.integers(1, 10))
    follow = np.full(n, -1, np.int32)
    if g.random() < 0.3 and n > 4:
        follow[: n // 2] = np.arange(n // 2, 2 * (n // 2))
        if g.random() < 0.7:  # turns that hold the one before
            inputs[n // 2 : 2 * (n // 2)] += inputs[: n // 2] + outputs[: n // 2]
    delay = np.where(g.random(n) < 0.5, 0, g.exponential(1, n)) if g.random() < 0.5 else np.zeros(n)
    gaps = np.cumsum(g.exponential(g.choice([0.01, 0.2, 2]), n))
    arrival = np.full(n, np.nan) if closed else np.round(gaps, int(g.integers(0, 4)))
    block = int(g.choice([1, 4, 16]))
    limits = Limits(
        pair=g.uniform(0, 1e-7),
        kv=float(g.choice([0, 1e-6])),
        per_sequence=g.uniform(0, 1e-4),
        prompt_floor=g.uniform(0, 1e-2),
        captured=int(g.choice([0, 200])),
        window=int(g.integers(0, 300)),
        window_kv=float(g.choice([0, 0, 1e-6])),
        budget=int(g.choice([64, 512, 2048])),
        max_seqs=int(g.choice([2, 8, 64])),
        block=block,
        blocks=int(g.integers(18, 90)) * 16 // block if g.random() < 0.7 else 10**6,
        watermark=int(g.integers(0, 4)),
        poll=int(g.choice([1, 1, 7])),
        mixed=bool(g.integers(2)),
        chunked=bool(g.integers(2)),
        reserve=bool(g.random() < 0.3),
        static=bool(g.random() < 0.15),
        router=int(g.integers(0, 6)),
        concurrency=closed,
        seed=int(g.integers(0, 100)),
        every=1,
        **further(np.random.default_rng(seed + 10**6)),
    )
    priority = (np.arange(n) % 3 if seed % 4 == 0 else np.zeros(n)).astype(np.int32)
    requests = Requests(
        arrival_s=arrival,
        input_tokens=inputs,
        output_tokens=outputs,
        priority=priority,
        group=(np.arange(n) % 5).astype(np.int32),
        follow=follow,
        delay_s=delay,
    )
    if limits.caching and seed % 3 == 0:
        requests.prefix_blocks = shared_blocks(np.random.default_rng(seed), inputs)
    return requests, *drafting(seed, linear, limits), int(g.integers(1, 5))


def drafting(seed: int, linear: np.ndarray, limits: Limits) -> tuple[np.ndarray, Limits]:
    """One case in three drafts tokens: seconds of drafting beside the table, several tokens a step."""
    if seed % 3 != 1:
        return linear, limits
    g = np.random.default_rng(seed + 2 * 10**6)
    drafted = int(g.integers(1, 6))
    pace = int(g.choice([1_000_000, 1_000_000 * (drafted + 1), int(g.integers(1_000_000, 1_000_000 * (drafted + 1)))]))
    both = linear if linear.ndim == 2 else np.stack([linear, np.zeros_like(linear)])
    draft = 1e-4 + np.arange(both.shape[1]) * 1e-6
    return (
        np.concatenate([both, [draft, 0.3 * draft]]),
        replace(limits, tokens_per_step=pace, step_tokens=drafted + 1, lookahead=drafted),
    )


def shared_blocks(g: np.random.Generator, inputs: np.ndarray) -> PrefixBlocks:
    """Prompts that branch off each other at random blocks of 16 tokens."""
    rows: list[list[int]] = []
    fresh = 0
    for tokens in inputs:
        count = int(tokens) // 16
        old = rows[int(g.integers(len(rows)))] if rows and g.random() < 0.8 else []
        row = old[: int(g.integers(0, min(len(old), count) + 1))]
        new = list(range(fresh, fresh + count - len(row)))
        fresh += len(new)
        rows.append(row + new)
    start = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    return PrefixBlocks(start, np.array([i for r in rows for i in r], np.int64), 16)


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
        x, y = loop.serve(a, linear, limits, n), loop.serve_plainly(b, linear, limits, n)
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
    # request again that had been taken out
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
    outcome = loop.serve(requests, linear, replace(limits, blocks=10**6), n)  # nobody is taken out on the way
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
        loop.serve(requests, tables, Limits(ranks=ranks, pair=1e-9, budget=8192), 1)
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
