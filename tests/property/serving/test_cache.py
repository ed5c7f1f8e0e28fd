"""Prefix caching: what is found, counted once, forgotten in order; and the switches that few engines have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.prefix_chains import chains_of
from windtunnel.serving.event_loop.requests import DONE, Requests

LINEAR = 0.01 + np.arange(20_000) * 1e-5
LIMITS = Limits(budget=2048, max_seqs=64, block=16, blocks=10_000, caching=True)


def alike(count: int, tokens: int, answer: int, gap_s: float) -> Requests:
    """Requests of one length at even distances."""
    return Requests(
        arrival_s=np.arange(count) * gap_s,
        input_tokens=np.full(count, tokens, np.int32),
        output_tokens=np.full(count, answer, np.int32),
    )


def test_a_system_prompt_is_found_by_all_but_the_first() -> None:
    requests = alike(20, 200, 10, 10.0)
    outcome = loop.serve(requests, LINEAR, LIMITS, 1, chains_of(requests, 16, shared_tokens=100))
    assert requests.cached_tokens.tolist() == [0] + [96] * 19  # six whole blocks of 16
    assert outcome.totals["hit_tokens"].sum() / outcome.totals["asked_tokens"].sum() == pytest.approx(19 * 96 / 4000)
    each = replace(LIMITS, router=0)
    two = alike(20, 200, 10, 10.0)
    loop.serve(two, LINEAR, each, 2, chains_of(two, 16, shared_tokens=100))
    assert (two.cached_tokens == 0).sum() == 2  # every instance has a cache of its own


def test_shared_blocks_are_counted_once() -> None:
    requests = alike(11, 320, 100, 0.0)
    requests.arrival_s[1:] = 0.5  # the first has computed its prompt by then, and decodes
    outcome = loop.serve(requests, LINEAR, LIMITS, 1, chains_of(requests, 16, shared_tokens=160))
    whole = -(-(320 + 99) // 16)  # of ten, once the first has ended
    assert outcome.totals["kv_max"][0] == 10 + 10 * (whole - 10)


def test_turns_find_the_turns_before_with_their_answers() -> None:
    follow = np.array([1, 2, -1], np.int32)
    inputs, outputs = np.array([100, 250, 400], np.int32), np.array([50, 60, 70], np.int32)
    requests = Requests(
        arrival_s=np.array([0.0, np.nan, np.nan]), input_tokens=inputs, output_tokens=outputs, follow=follow
    )
    loop.serve(requests, LINEAR, LIMITS, 1)
    # the last token of an answer is never computed: 149 tokens are there, nine whole blocks
    assert requests.cached_tokens.tolist() == [0, 144, 304]
    late = replace(
        requests, input_tokens=np.array([100, 140, 400], np.int32), arrival_s=np.array([0.0, np.nan, np.nan])
    )
    loop.serve(late, LINEAR, LIMITS, 1)
    assert late.cached_tokens[1] == 0  # a prompt that cannot hold the turn before


def test_what_was_let_go_first_is_forgotten_first() -> None:
    """Two conversations; a long prompt between pushes out the older one."""
    follow = np.array([3, 4, -1, -1, -1], np.int32)
    inputs = np.array([160, 160, 480, 320, 320], np.int32)
    outputs = np.full(5, 16, np.int32)
    requests = Requests(
        arrival_s=np.array([0.0, 1.0, 2.0, np.nan, np.nan]),
        input_tokens=inputs,
        output_tokens=outputs,
        follow=follow,
        delay_s=np.full(5, 5.0),
    )
    found = {}
    for blocks in (80, 46, 32):
        one = replace(requests, arrival_s=requests.arrival_s.copy())
        loop.serve(one, LINEAR, replace(LIMITS, blocks=blocks), 1)
        found[blocks] = one.cached_tokens[3:].tolist()
    assert found[80] == [160, 160]
    assert found[46][0] < 160
    assert found[32][0] == 0


@pytest.mark.parametrize("seed", range(8))
def test_chains_spell_prompts_and_answers(seed: int) -> None:
    g = np.random.default_rng(seed)
    n, block, shared = 40, int(g.choice([1, 16, 64])), int(g.integers(0, 80))
    inputs, outputs = g.integers(80, 300, n).astype(np.int32), g.integers(1, 90, n).astype(np.int32)
    follow = np.full(n, -1, np.int32)
    for r in range(n - 1):
        if r % 4 != 3:
            follow[r] = r + 1
            inputs[r + 1] += inputs[r] + outputs[r]
    requests = Requests(arrival_s=np.arange(n) * 1.0, input_tokens=inputs, output_tokens=outputs, follow=follow)
    chains = chains_of(requests, block, shared)
    assert set(chains.nodes.tolist()) <= set(range(len(chains.size)))
    for r in range(n):
        own = chains.nodes[chains.start[r] : chains.start[r + 1]]
        assert chains.size[own].sum() == (inputs[r] + outputs[r]) // block
    used = np.bincount(chains.nodes, minlength=len(chains.size))
    assert (used[: chains.common] > 1).all()
    assert (used[chains.common :] <= 1).all()


@pytest.mark.parametrize("seed", range(6))
def test_a_cache_never_overflows_and_finding_never_makes_more_work(seed: int) -> None:
    g = np.random.default_rng(seed)
    n = 200
    requests = Requests(
        arrival_s=np.cumsum(g.exponential(0.05, n)),
        input_tokens=g.integers(100, 400, n).astype(np.int32),
        output_tokens=g.integers(1, 100, n).astype(np.int32),
    )
    limits = replace(LIMITS, blocks=int(g.integers(40, 400)))
    off = replace(requests, arrival_s=requests.arrival_s.copy())
    plain = loop.serve(off, LINEAR, replace(limits, caching=False), 1)
    found = loop.serve(requests, LINEAR, limits, 1, chains_of(requests, 16, shared_tokens=96))
    assert (requests.state == DONE).all()
    assert found.totals["kv_max"].max() <= limits.blocks
    assert found.totals["prompt_tokens"].sum() < plain.totals["prompt_tokens"].sum()
    tokens = requests.input_tokens.sum() - requests.cached_tokens.sum()
    if not requests.preemptions.any():
        assert found.totals["prompt_tokens"].sum() == tokens


def crowd() -> Requests:
    """More requests than the cache holds."""
    g = np.random.default_rng(5)
    return Requests(
        arrival_s=np.zeros(80),
        input_tokens=g.integers(100, 300, 80).astype(np.int32),
        output_tokens=g.integers(50, 400, 80).astype(np.int32),
    )


def test_looking_ahead_takes_fewer_requests_in_and_out() -> None:
    base = Limits(budget=2048, max_seqs=64, block=1, blocks=4000, mixed=False)
    eager, careful = crowd(), crowd()
    a = loop.serve(eager, LINEAR, base, 1)
    ahead = replace(base, ratio_start=700_000, ratio_least=98_000, ratio_decay=1_003, retract=20)
    b = loop.serve(careful, LINEAR, ahead, 1)
    assert 0 <= careful.preemptions.sum() < 0.5 * eager.preemptions.sum()
    assert b.totals["running_max"][0] < a.totals["running_max"][0]


def test_swapped_requests_are_not_computed_again() -> None:
    base = Limits(budget=2048, max_seqs=64, block=16, blocks=250)
    again, swapped = crowd(), crowd()
    a = loop.serve(again, LINEAR, base, 1)
    b = loop.serve(swapped, LINEAR, replace(base, swap_blocks=10_000, swap_block_s=1e-5), 1)
    assert swapped.preemptions.sum() > 0
    assert b.totals["prompt_tokens"].sum() == swapped.input_tokens.sum() + swapped.preemptions.sum()
    assert a.totals["prompt_tokens"].sum() > b.totals["prompt_tokens"].sum()
    slow = crowd()
    loop.serve(slow, LINEAR, replace(base, swap_blocks=10_000, swap_block_s=1e-2), 1)
    assert slow.finish_s.max() > swapped.finish_s.max()


def test_reserving_the_longest_answer_admits_by_it_alone() -> None:
    base = Limits(budget=2048, max_seqs=64, block=16, blocks=500, reserve=True, chunked=False)
    own, longest = crowd(), crowd()
    a = loop.serve(own, LINEAR, base, 1)
    b = loop.serve(longest, LINEAR, replace(base, reserve_length=2000), 1)
    assert b.totals["running_max"][0] == 500 // 125
    assert a.totals["running_max"][0] > 4
    assert not own.preemptions.any()


def test_states_and_windows_take_blocks_of_every_sequence() -> None:
    base = Limits(budget=2048, max_seqs=64, block=16, blocks=400)
    held = replace(base, sequence_blocks=90)
    assert loop.serve(crowd(), LINEAR, held, 1).totals["running_max"][0] <= 4
    wide = loop.serve(crowd(), LINEAR, replace(base, window=64, window_share=5.0), 1)  # 20 blocks each
    assert wide.totals["running_max"][0] < loop.serve(crowd(), LINEAR, base, 1).totals["running_max"][0]
    assert wide.totals["kv_max"][0] <= 400
