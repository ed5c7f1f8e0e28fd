"""Several pools in one loop: prompts on one, answers on another. Twin, laws, limits, and a model of every token."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from event_loop_cases import TIMES, split

from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.fleet import FirstToken, Fleet, KvTransfer, stack_tables
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.requests import DONE, REJECTED, Requests

LINEAR = 0.004 + np.arange(4000) * 2e-5


def test_kernel_equals_its_twin() -> None:
    preempted = rejected = found = handed = both = 0
    for seed in range(160):
        (a, fleet), (b, _) = split(seed), split(seed)
        x, y = loop.serve_fleet(a, fleet), loop.serve_fleet_in_python(b, fleet)
        for name in (
            *TIMES,
            "preemptions",
            "instance",
            "state",
            "cached_tokens",
            "prompt_end_s",
            "answer_scheduled_s",
            "moved_s",
            "answered_by",
        ):
            assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), (seed, name)
        for name in x.totals.dtype.names:
            np.testing.assert_allclose(x.totals[name], y.totals[name], rtol=1e-12, err_msg=f"{seed} {name}")
        np.testing.assert_array_equal(x.between_tokens, y.between_tokens)
        assert x.series.tolist() == y.series.tolist()
        preempted, rejected = preempted + a.preemptions.sum(), rejected + (a.state == REJECTED).sum()
        found += int(a.cached_tokens.any())
        handed += int(np.isfinite(a.moved_s).sum())
        both += int(np.isfinite(a.moved_s).any() and (a.answered_by[a.state == DONE] < 0).any())
    assert preempted > 60  # the cases reach what they are for
    assert rejected > 10
    assert found > 15
    assert handed > 1500
    assert both > 20


@pytest.mark.parametrize("seed", range(600, 640))
def test_nothing_is_lost_and_no_cache_overflows(seed: int) -> None:
    requests, fleet = split(seed)
    outcome = loop.serve_fleet(requests, fleet)
    assert set(requests.state.tolist()) <= {DONE, REJECTED}
    done = requests.state == DONE
    moved = done & (requests.answered_by >= 0)
    assert (requests.scheduled_s[done] >= requests.arrival_s[done]).all()
    assert (requests.first_token_s[done] <= requests.finish_s[done]).all()
    assert (requests.moved_s[moved] >= requests.prompt_end_s[moved]).all()
    assert (requests.answer_scheduled_s[moved] <= requests.moved_s[moved]).all()
    assert fleet.prefill_only[requests.instance[moved]].all()
    assert (requests.answered_by[moved] >= fleet.entries).all()
    for k, total in enumerate(outcome.totals):
        own = fleet.limits[fleet.pool[k]]
        assert total["kv_max"] <= own.blocks
        assert total["running_max"] <= own.max_seqs
    # every token but the first is made by a decode step, or again by a prompt that was preempted
    rule = fleet.kv_transfer
    assert rule is not None
    again = requests.preemptions[requests.state == DONE].sum()
    own_first = moved.sum() if rule.first is FirstToken.DECODE else 0
    one_each = all(own.tokens_per_step == 1_000_000 for own in fleet.limits)
    if one_each and not (requests.state == REJECTED).any():
        steps = requests.output_tokens.sum() - len(requests) + own_first
        assert outcome.totals["decode_tokens"].sum() == pytest.approx(steps - again)


@pytest.mark.parametrize("seed", range(700, 725))
def test_no_transfer_is_faster_than_its_link(seed: int) -> None:
    requests, fleet = split(seed)
    loop.serve_fleet(requests, fleet)
    rule = fleet.kv_transfer
    assert rule is not None
    q = requests
    moved = np.flatnonzero(np.isfinite(q.moved_s))
    a, b, tokens = q.instance[moved], q.answered_by[moved], q.input_tokens[moved].astype(float)
    share = np.array([own.window_share for own in fleet.limits])[fleet.pool[b]]
    window = np.array([own.window for own in fleet.limits])[fleet.pool[b]]
    tokens = tokens + share * np.minimum(tokens, window)
    alone = rule.fixed_s[a, b] + rule.token_s[0, a, b] * tokens
    begin = np.maximum(q.answer_scheduled_s[moved], q.scheduled_s[moved])
    if not rule.early:
        begin = np.maximum(begin, q.prompt_end_s[moved] + rule.control_s)
    assert (q.moved_s[moved] >= begin + alone - 1e-12).all()
    for side, lane in ((1, a), (2, b)):  # a port carries its work one after another
        for port in set(rule.port[lane]):
            mine = rule.port[lane] == port
            work = (rule.token_s[side, a, b] * tokens)[mine].sum()
            assert q.moved_s[moved][mine].max(initial=0) - begin[mine].min(initial=np.inf) >= work - 1e-9


def test_layers_that_leave_early_help_and_are_bounded_by_the_last_one() -> None:
    late = {}
    for pieces in (1, 10):
        limits = Limits(budget=4096, max_seqs=8, blocks=10**5)
        token = np.full((3, 2, 2), 1e-5)
        fleet = Fleet(
            limits=(limits, limits),
            tables=stack_tables([np.stack([LINEAR, 0 * LINEAR])] * 2),
            pool=np.array([0, 1]),
            prefill_only=np.array([True, False]),
            entries=1,
            kv_transfer=KvTransfer(
                token_s=token, fixed_s=np.full((2, 2), 0.001), port=np.arange(2), pieces=pieces, early=True
            ),
        )
        q = Requests(
            arrival_s=np.zeros(1), input_tokens=np.full(1, 1000, np.int32), output_tokens=np.full(1, 5, np.int32)
        )
        loop.serve_fleet(q, fleet)
        late[pieces] = float(q.moved_s[0] - q.prompt_end_s[0])
    prompt = LINEAR[1000]
    assert late[1] == pytest.approx(0.001 + 0.01)
    assert late[10] == pytest.approx(0.001 + 0.001)  # the prompt takes 24 ms, the transfer 11: one layer is left
    assert prompt > 0.02


@pytest.mark.parametrize("seed", range(20))
def test_two_pools_are_a_model_of_every_token(seed: int) -> None:
    """One prompt instance, one answering instance, one link between: against a model written on its own."""
    g = np.random.default_rng(seed)
    n, token = 40, 0.0 if seed % 3 == 0 else float(g.choice([1e-6, 1e-4, 3e-4]))
    inputs, outputs = g.integers(1, 300, n).astype(np.int32), g.integers(2, 80, n).astype(np.int32)
    arrival = np.cumsum(g.exponential(0.05, n))
    one = Limits(budget=256, max_seqs=6, block=16, blocks=10**5, per_sequence_s=1e-5, pair_s=1e-8)
    two = Limits(budget=512, max_seqs=7, block=16, blocks=10**5, per_sequence_s=1e-5, kv_s=1e-7)
    fleet = Fleet(
        limits=(one, two),
        tables=stack_tables([np.stack([LINEAR, 0 * LINEAR])] * 2),
        pool=np.array([0, 1]),
        prefill_only=np.array([True, False]),
        entries=1,
        kv_transfer=KvTransfer(token_s=np.full((3, 2, 2), token), fixed_s=np.zeros((2, 2)), port=np.arange(2)),
    )
    q = Requests(arrival_s=arrival.copy(), input_tokens=inputs, output_tokens=outputs)
    loop.serve_fleet(q, fleet)
    prompts = Requests(arrival_s=arrival.copy(), input_tokens=inputs, output_tokens=np.ones(n, np.int32))
    loop.serve(prompts, LINEAR, one, 1)
    np.testing.assert_array_equal(q.first_token_s, prompts.first_token_s)
    end = answers_token_by_token(q.first_token_s, inputs, outputs, two, token)
    np.testing.assert_allclose(q.finish_s, end, rtol=1e-9)


def answers_token_by_token(
    told: np.ndarray, inputs: np.ndarray, outputs: np.ndarray, limits: Limits, token_s: float
) -> list[float]:
    """No request is ever preempted: at every step blocks are kept, caches sent one by one, and what has come joins."""
    line = sorted(range(len(told)), key=lambda i: told[i])
    coming: dict[int, float] = {}
    here: dict[int, int] = {}
    end = [0.0] * len(told)
    now = link = 0.0
    while line or coming or here:
        if not here:
            now = max(now, min([told[line[0]]] * bool(line and len(coming) < limits.max_seqs) + list(coming.values())))
        for i in [i for i, at in coming.items() if at <= now]:
            del coming[i]
            here[i] = 1
        while line and told[line[0]] <= now and len(here) + len(coming) < limits.max_seqs:
            i = line.pop(0)
            link = max(link, now) + token_s * inputs[i]
            coming[i] = link
        if not here:
            continue
        cached = sum(inputs[i] + made for i, made in here.items())
        now += LINEAR[len(here)] + limits.per_sequence_s * len(here) + limits.kv_s * cached
        for i in list(here):
            here[i] += 1
            if here[i] == outputs[i]:
                end[i] = now
                del here[i]
    return end


def test_a_prompt_keeps_its_blocks_until_they_have_left() -> None:
    """A prompt cache of two prompts, and a slow link: the third waits for a transfer to end, not for a prompt."""
    one = Limits(budget=4096, max_seqs=8, block=16, blocks=20)
    two = replace(one, blocks=10**5)
    token = np.full((3, 2, 2), 1e-3)
    fleet = Fleet(
        limits=(one, two),
        tables=stack_tables([np.stack([LINEAR, 0 * LINEAR])] * 2),
        pool=np.array([0, 1]),
        prefill_only=np.array([True, False]),
        entries=1,
        kv_transfer=KvTransfer(token_s=token, fixed_s=np.zeros((2, 2)), port=np.arange(2)),
    )
    q = Requests(arrival_s=np.zeros(3), input_tokens=np.full(3, 160, np.int32), output_tokens=np.full(3, 4, np.int32))
    loop.serve_fleet(q, fleet)
    assert q.moved_s[1] == pytest.approx(q.moved_s[0] + 0.160)  # one port: in turn
    assert q.scheduled_s[2] == q.moved_s[0]


def test_work_is_conserved() -> None:
    """The same tokens are computed whatever the pools: prompts once, answers once."""
    requests, fleet = split(3)
    free = tuple(replace(own, blocks=10**6, caching=False, reserve_length=0) for own in fleet.limits)
    outcome = loop.serve_fleet(requests, replace(fleet, limits=free))
    assert (requests.state == DONE).all()
    assert outcome.totals["prompt_tokens"].sum() == requests.input_tokens.sum()


def test_a_fleet_needs_both_kinds() -> None:
    limits = Limits()
    with pytest.raises(ValueError, match="go together"):
        Fleet(
            limits=(limits,),
            tables=np.zeros((1, 2, 9)),
            pool=np.zeros(1, np.int64),
            prefill_only=np.ones(1, np.bool_),
            entries=1,
        )


def test_answers_of_one_pool_route_like_the_twin() -> None:
    """Python routers see the lanes that take requests in, and no others."""
    requests, fleet = split(11)
    seen = set()

    class Watch(reference.Router):
        def route(self, instances: list[reference.Instance], q: reference.Request) -> int:
            seen.add(len(instances))
            return super().route(instances, q)

    loop.serve_fleet_in_python(
        requests, fleet, LoopRules(router=Watch(reference.RouterId(fleet.limits[0].router), fleet.limits[0].seed))
    )
    assert seen == {fleet.entries}


def mixed_pool(seed: int, prompt_tokens: int, answers_in_line: int) -> reference.Router:
    from windtunnel.serving.routers import ROUTERS

    own = ROUTERS.get("mixed_pool").twin(reference.RouterId.LEAST_TOKENS, seed)
    own.context = replace(own.context, options={"prompt_tokens": prompt_tokens, "answers_in_line": answers_in_line})
    return own


@pytest.mark.parametrize("seed", range(800, 812))
def test_a_mixed_pool_that_never_lends_is_the_shortest_queue(seed: int) -> None:
    (a, fleet), (b, _) = split(seed), split(seed)
    first = replace(fleet.limits[0], router=int(reference.RouterId.LEAST_TOKENS))
    fleet = replace(fleet, limits=(first, *fleet.limits[1:]))
    loop.serve_fleet(a, fleet)
    loop.serve_fleet_in_python(b, fleet, LoopRules(router=mixed_pool(first.seed, 1 << 30, 1 << 30)))
    for name in TIMES:
        assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), name


@pytest.mark.parametrize("seed", range(820, 840))
def test_a_mixed_pool_that_lends_loses_nothing(seed: int) -> None:
    requests, fleet = split(seed)
    outcome = loop.serve_fleet_in_python(requests, fleet, LoopRules(router=mixed_pool(fleet.limits[0].seed, 64, 1)))
    assert set(requests.state.tolist()) <= {DONE, REJECTED}
    assert np.isfinite(requests.finish_s[requests.state == DONE]).all()
    for k, total in enumerate(outcome.totals):
        assert total["kv_max"] <= fleet.limits[fleet.pool[k]].blocks


def test_a_mixed_pool_shortens_the_line_of_a_burst() -> None:
    limits = Limits(budget=2048, max_seqs=64, block=16, blocks=10**5, kv_s=1e-7)
    fleet = Fleet(
        limits=(limits, limits),
        tables=stack_tables([np.stack([LINEAR, 0 * LINEAR])] * 2),
        pool=np.array([0, 1, 1]),
        prefill_only=np.array([True, False, False]),
        entries=1,
        kv_transfer=KvTransfer(token_s=np.full((3, 3, 3), 1e-6), fixed_s=np.zeros((3, 3)), port=np.arange(3)),
    )
    last = {}
    for tokens in (1 << 30, 2000):
        q = Requests(
            arrival_s=np.linspace(0, 0.1, 40),
            input_tokens=np.full(40, 1000, np.int32),
            output_tokens=np.full(40, 30, np.int32),
        )
        loop.serve_fleet_in_python(q, fleet, LoopRules(router=mixed_pool(1, tokens, 1 << 30)))
        last[tokens] = q.first_token_s.max()
        assert (q.state == DONE).all()
    assert last[2000] < 0.5 * last[1 << 30]
