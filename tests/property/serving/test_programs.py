"""Programs of calls: the jitted loop equals its twin bit for bit; joins, quorums, tools and calls taken back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from event_loop_cases import TIMES
from program_cases import program, several, split_program

from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.requests import CANCELLED, DONE, REJECTED, Requests

SAME = (*TIMES, "preemptions", "instance", "state", "cached_tokens", "generated_tokens")


def equal(a: Requests, b: Requests, seed: int) -> None:
    for name in SAME:
        assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), (seed, name)
    assert a.after is not None
    assert b.after is not None
    assert np.array_equal(a.after.over_s, b.after.over_s, equal_nan=True), seed


@pytest.mark.parametrize("rich", [False, True])
def test_kernel_equals_its_twin(rich: bool) -> None:
    seen: dict[str, int] = {"preempted": 0, "rejected": 0, "cancelled": 0, "cut": 0, "queued": 0}
    for seed in range(200):
        (a, linear, limits, n), (b, *_) = program(seed, rich=rich), program(seed, rich=rich)
        x, y = loop.serve(a, linear, limits, n), loop.serve_in_python(b, linear, limits, n)
        equal(a, b, seed)
        for name in x.totals.dtype.names:
            np.testing.assert_allclose(x.totals[name], y.totals[name], rtol=1e-12, err_msg=f"{seed} {name}")
        np.testing.assert_array_equal(x.between_tokens, y.between_tokens)
        assert x.series.tolist() == y.series.tolist(), seed
        cancelled = a.state == CANCELLED
        seen["preempted"] += int(a.preemptions.sum())
        seen["rejected"] += int((a.state == REJECTED).sum())
        seen["cancelled"] += int(cancelled.sum())
        seen["cut"] += int((cancelled & (a.generated_tokens > 0) & (a.generated_tokens < a.output_tokens)).sum())
        seen["queued"] += int((cancelled & np.isnan(a.scheduled_s) & ~np.isnan(a.finish_s)).sum())
    wanted = seen if rich else {"preempted": 0, "rejected": 0}
    assert all(seen[name] > 10 for name in wanted), seen


def test_kernel_equals_its_twin_where_caches_move() -> None:
    for seed in range(60):
        (a, fleet), (b, _) = split_program(seed), split_program(seed)
        loop.serve_fleet(a, fleet)
        reference.serve_fleet(b, fleet)
        equal(a, b, seed)


def test_kernel_equals_its_twin_with_several_models() -> None:
    for seed in range(600, 700):
        (a, fleet), (b, _) = several(seed), several(seed)
        x, y = loop.serve_fleet(a, fleet), loop.serve_fleet_in_python(b, fleet)
        equal(a, b, seed)
        np.testing.assert_allclose(x.totals["used_s"], y.totals["used_s"], rtol=1e-12)
        ran = a.instance >= 0
        first, last = fleet.lane_groups[a.pool[ran]].T
        assert ((a.instance[ran] >= first) & (a.instance[ran] < last)).all()


def test_columns_that_say_nothing_change_nothing() -> None:
    """All parents are needed, joints take no time and cancel nothing, nothing is kept: bit by bit the plain graph."""
    for seed in range(60):
        (a, linear, limits, n), (b, *_) = program(seed, rich=False), program(seed, rich=False)
        own = b.after
        assert own is not None
        none = np.zeros((own.joints, 2), np.int32)
        b.after = replace(
            own,
            needs=own.parents.astype(np.int32),
            seconds=np.zeros(own.joints),
            server=np.full(own.joints, -1, np.int32),
            servers=np.ones(1, np.int32),
            cancels=none,
            cancels_joints=none,
        )
        loop.serve(a, linear, limits, n)
        loop.serve(b, linear, limits, n)
        equal(a, b, seed)


def test_a_task_ends_with_its_last_node() -> None:
    """In a closed loop of one task in flight, the next begins when the last call or tool of the one before is over."""
    for seed in range(40):
        requests, linear, limits, n = program(seed)
        heads = requests.after is not None and requests.after.parents[: len(requests)] == 0
        requests.arrival_s = np.full(len(requests), np.nan)
        loop.serve(requests, linear, replace(limits, concurrency=1), n)
        after = requests.after
        assert after is not None
        over = np.where(requests.state == REJECTED, requests.arrival_s, requests.finish_s)
        ends = np.full(int(after.task.max()) + 1, -np.inf)
        np.maximum.at(ends, after.tasks_of_nodes(), np.nan_to_num(np.concatenate([over, after.over_s]), nan=-np.inf))
        begins = np.full(len(ends), np.inf)
        np.minimum.at(begins, after.task[heads], np.nan_to_num(requests.arrival_s[heads], nan=np.inf))
        np.testing.assert_array_equal(begins, np.concatenate([[0.0], ends[:-1]]), err_msg=str(seed))


@pytest.mark.parametrize("seed", range(300, 330))
def test_nothing_is_lost_and_the_cache_never_overflows(seed: int) -> None:
    requests, linear, limits, n = program(seed)
    outcome = loop.serve(requests, linear, limits, n)
    assert set(requests.state.tolist()) <= {DONE, REJECTED, CANCELLED}
    assert outcome.totals["kv_max"].max(initial=0) <= limits.blocks
    assert outcome.totals["running_max"].max(initial=0) <= limits.max_seqs
    done, made = requests.state == DONE, requests.generated_tokens
    assert (made[done] == requests.output_tokens[done]).all()
    assert (made <= requests.output_tokens).all()
    assert (made[requests.state == REJECTED] == 0).all()
    if limits.step_tokens == 1:
        steps = (made - (made > 0)).sum()
        assert outcome.between_tokens.sum() == steps


def test_no_call_is_sent_before_what_it_needs_and_no_task_ends_before_its_nodes() -> None:
    for seed in range(60):
        requests, linear, limits, n = program(seed)
        loop.serve(requests, linear, limits, n)
        after = requests.after
        assert after is not None
        count = len(requests)
        # rejected calls are over when they came
        over = np.where(requests.state == CANCELLED, np.nan, requests.finish_s)
        over = np.where(requests.state == REJECTED, requests.arrival_s, over)
        over = np.concatenate([over, after.over_s])
        needed, seconds = after.needed(), after.seconds
        assert seconds is not None
        ready: list[list[float]] = [[] for _ in range(after.nodes)]
        for p in range(after.nodes):
            for c in after.children[after.start[p] : after.start[p + 1]]:
                ready[c].append(over[p])
        for c in range(after.nodes):
            if not ready[c]:
                continue
            at = np.sort(ready[c])[needed[c] - 1]  # nan, where too few were over, comes last
            if c < count and requests.state[c] != CANCELLED:
                assert requests.arrival_s[c] == at + requests.delay_s[c]
            elif c >= count and not np.isnan(over[c]):
                assert over[c] >= at + seconds[c - count] - 1e-12
                if after.server is None or after.server[c - count] < 0:
                    assert over[c] == at + seconds[c - count]


@pytest.mark.parametrize("seed", range(400, 430))
def test_littles_law(seed: int) -> None:
    """Mean number in an instance = rate of calls · mean time in it, calls taken back included."""
    requests, linear, limits, n = program(seed)
    outcome = loop.serve(requests, linear, limits, n)
    ran = ~np.isnan(requests.scheduled_s)
    if requests.preemptions.any():
        return
    inside = (requests.finish_s - requests.scheduled_s)[ran].sum()
    assert outcome.totals["running_s"].sum() == pytest.approx(inside, rel=1e-9, abs=1e-9)
