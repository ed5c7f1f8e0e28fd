"""Laws of every queue discipline: nobody lost, cache within capacity, work conserved, service shared as promised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from serving_requests import LIMITS, LINEAR, context, drawn

from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.recorder import Recorder
from windtunnel.serving.event_loop.requests import DONE, REJECTED, Requests
from windtunnel.serving.queues import QUEUES, Queue


def served(
    requests: Requests, queue: Queue, limits: Limits = LIMITS, instances: int = 1
) -> tuple[reference.ReferenceLoop, Recorder]:
    """A run by the twin; times are written into the requests."""
    record = Recorder(instances, 1)
    reference.serve(requests, LINEAR, limits, instances, LoopRules(queue=queue), record=record)
    return queue, record


@pytest.mark.parametrize("id", QUEUES.list())
def test_nobody_is_lost_and_the_cache_never_overflows(id: str) -> None:
    preempted = 0
    for seed in range(6):
        requests = drawn(seed)
        limits = replace(LIMITS, blocks=56, swap_blocks=40 * (seed % 2), swap_block_s=1e-4, chunked=seed % 3 > 0)
        _, record = served(requests, QUEUES.get(id)(context(3, ttft_s=1.0)), limits, 1 + seed % 2)
        assert set(requests.state.tolist()) <= {DONE, REJECTED}
        done = requests.state == DONE
        assert (requests.first_token_s[done] <= requests.finish_s[done]).all()
        assert (requests.scheduled_s[done] >= requests.arrival_s[done]).all()
        assert record.totals["kv_max"].max() <= limits.blocks
        assert record.totals["running_max"].max() <= limits.max_seqs
        steps = requests.output_tokens[done].sum() - done.sum()  # each token after the first is one step of one request
        made_twice = record.totals["decode_tokens"].sum() - (steps - requests.preemptions[done].sum())
        assert abs(made_twice) <= requests.preemptions.sum()
        preempted += requests.preemptions.sum()
    assert preempted > 10


@pytest.mark.parametrize("id", QUEUES.list())
def test_work_is_conserved(id: str) -> None:
    """One instance is busy exactly while anybody is there."""
    for seed in range(3):
        requests = drawn(seed, rate_per_s=4.0)
        _, record = served(requests, QUEUES.get(id)(context(3)))
        present = 0.0
        until = -np.inf
        for a, b in sorted(zip(requests.arrival_s, requests.finish_s, strict=True)):
            present += max(b - max(a, until), 0.0)
            until = max(until, b)
        assert record.totals["busy_s"].sum() == pytest.approx(present)


def test_fcfs_and_priority_are_the_jitted_loop() -> None:
    for seed in range(8):
        a, b = drawn(seed), drawn(seed)
        loop.serve(a, LINEAR, LIMITS, 2)
        served(b, QUEUES.get("priority")(context(3)), instances=2)
        assert np.array_equal(a.finish_s, b.finish_s, equal_nan=True)


class Watched:
    """Service as it is received, sampled while two tenants have queued requests."""

    def __init__(self) -> None:
        self.got = [0.0, 0.0]
        self.spread = self.low = self.high = 0.0
        self.open = False

    def look(self, both: bool) -> None:
        apart = self.got[0] - self.got[1]
        if not both or not self.open:
            self.low = self.high = apart
        self.open = both
        self.low, self.high = min(self.low, apart), max(self.high, apart)
        self.spread = max(self.spread, self.high - self.low)


def watched(id: str, seen: Watched) -> type[Queue]:
    """A discipline that notes service by the definition: prompts when admitted, answers as they are made."""
    base = QUEUES.get(id)

    class Noting(base):  # type: ignore[valid-type, misc]
        def begin(self, instances: Any) -> None:
            super().begin(instances)
            self.lines_of = [0, 0]

        def arrive(self, one: Any, q: Any) -> None:
            super().arrive(one, q)
            self.lines_of[q.tenant] += 1

        def put_back(self, one: Any, q: Any) -> None:
            super().put_back(one, q)
            self.lines_of[q.tenant] += 1

        def take(self, one: Any, q: Any) -> None:
            both = all(self.lines_of)
            super().take(one, q)
            self.lines_of[q.tenant] -= 1
            if not q.preemptions:
                seen.got[q.tenant] += q.input
            seen.look(both and all(self.lines_of))

        def served(self, one: Any, chunks: Any, tokens: int) -> None:
            super().served(one, chunks, tokens)
            for q in one.decoding:
                seen.got[q.tenant] += 2.0 * min(tokens, q.output - q.made)
            for q, c in chunks:
                seen.got[q.tenant] += 2.0 * (q.left == c)
            seen.look(all(self.lines_of))

    return Noting


def uneven(seed: int) -> Requests:
    """One tenant sends four times as much as the other; both always wait."""
    return drawn(
        seed,
        2,
        num_requests=240,
        rate_per_s=40.0,
        shared_prefix_tokens=0,
        tenants=[{"name": "much", "share": 4.0}, {"name": "little", "share": 1.0}],
    )


def bound(requests: Requests, limits: Limits) -> float:
    """max(w_p · longest prompt, w_q · tokens of a batch)."""
    return max(float(requests.input_tokens.max()), 2.0 * limits.blocks * limits.block)


def test_vtc_bounds_the_difference_of_service_and_fcfs_does_not() -> None:
    limits, beyond = replace(LIMITS, caching=False, blocks=60, max_seqs=4), 0
    for seed in range(5):
        for id in ("vtc", "fcfs"):
            seen, requests = Watched(), uneven(seed)
            served(requests, watched(id, seen)(context(2)), limits)
            if id == "vtc":
                assert 0 < seen.spread <= 2 * bound(requests, limits)
            else:
                beyond += seen.spread > 2 * bound(requests, limits)
    assert beyond == 5  # the case tells them apart


def test_dlpm_bounds_the_difference_of_service() -> None:
    limits, quantum = replace(LIMITS, caching=False, blocks=60, max_seqs=4), 500.0
    for seed in range(5):
        seen, requests = Watched(), uneven(seed)
        served(requests, watched("dlpm", seen)(context(2, quantum=quantum)), limits)
        assert 0 < seen.spread <= 2 * (bound(requests, limits) + quantum)


@pytest.mark.parametrize("id", ["vtc", "dlpm"])
def test_equal_tenants_get_equal_service_and_weights_share_it(id: str) -> None:
    limits = replace(LIMITS, caching=False)
    for weights in ((1.0, 1.0), (3.0, 1.0)):
        requests = drawn(
            1,
            2,
            num_requests=400,
            rate_per_s=500.0,
            input_tokens=64,
            output_tokens=20,
            shared_prefix_tokens=0,
            tenants=[{"name": "a"}, {"name": "b"}],
        )
        served(requests, QUEUES.get(id)(context(2, weights=weights, quantum=200.0)), limits)
        ends = [np.sort(requests.finish_s[requests.tenant == i]) for i in (0, 1)]
        until = min(ends[0][-1], ends[1][-1]) * 0.95  # while both wait
        share = [float((e <= until).sum()) for e in ends]
        assert share[0] / share[1] == pytest.approx(weights[0] / weights[1], rel=0.15)


def test_shortest_first_lowers_the_mean_and_a_blind_predictor_gains_less() -> None:
    mean = {}
    for name, id, knobs in (("fcfs", "fcfs", {}), ("sjf", "sjf", {}), ("blind", "sjf", {"error": 5.0})):
        total = 0.0
        for seed in range(4):
            requests = drawn(seed, rate_per_s=30.0, output_tokens={"distribution": "lognormal", "mean": 40, "cv": 2.0})
            served(requests, QUEUES.get(id)(context(3, **knobs)))
            total += float((requests.finish_s - requests.arrival_s).mean())
        mean[name] = total
    assert mean["sjf"] < mean["blind"] * 0.9
    assert mean["sjf"] < mean["fcfs"] * 0.8


def test_a_better_class_waits_less_with_preemption() -> None:
    wait = {}
    for id in ("fcfs", "priority", "priority_preempt"):
        requests = drawn(3, rate_per_s=30.0)
        served(requests, QUEUES.get(id)(context(3)))
        best = requests.priority == 0
        wait[id] = float((requests.first_token_s - requests.arrival_s)[best].mean())
    assert wait["priority_preempt"] < wait["priority"]
    # fcfs reads classes only where traffic has them in the loop's own order; the default line is by class
    assert wait["priority"] <= wait["fcfs"]


def test_longest_prefix_match_finds_more_than_order_of_arrival() -> None:
    hit = {}
    for id in ("fcfs", "lpm", "dfs_weight", "dlpm"):
        requests = drawn(
            2,
            1,
            rate_per_s=200.0,
            num_requests=100,
            input_tokens=420,
            output_tokens=4,
            tenants=[{"name": "a", "shared_prefix_tokens": 400, "prefixes": 12}],
        )
        served(requests, QUEUES.get(id)(context(1)), replace(LIMITS, blocks=120, max_seqs=2))
        hit[id] = int(requests.cached_tokens.sum())
    assert min(hit["lpm"], hit["dfs_weight"], hit["dlpm"]) > 1.3 * hit["fcfs"]
