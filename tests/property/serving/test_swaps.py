"""Laws of caches that move to the host and back while priorities change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from serving_requests import LIMITS, LINEAR, context, drawn

from windtunnel.errors import BadInput
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.recorder import Recorder
from windtunnel.serving.event_loop.requests import DONE, Requests
from windtunnel.serving.event_loop.swapping import Swaps
from windtunnel.serving.queues import QUEUES
from windtunnel.serving.simulate import simulate_serving

HOST = replace(LIMITS, blocks=70, swap_blocks=4000, swap_block_s=1e-4, caching=False)


def served(
    swaps: Swaps | None, seed: int = 0, *, every: int = 4, limits: Any = HOST, **more: Any
) -> tuple[Requests, Any]:
    requests = drawn(seed, rate_per_s=20.0, **more)
    queue = QUEUES.get("priority_trace")(context(3, update_every=every))
    queue.swaps = swaps
    record = Recorder(1, 1)
    reference.serve(requests, LINEAR, limits, 1, LoopRules(queue=queue), record=record)
    return requests, record


def swap(**more: Any) -> Swaps:
    given = {"block_s": 1e-4, "copies": 64, "copy_s": 8e-6} | more
    return Swaps(given.pop("block_s"), given.pop("copies"), given.pop("copy_s"), **given)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("caching", [False, True])
def test_nobody_is_lost_and_host_and_cache_are_empty_in_the_end(asynchronous: bool, reuse: bool, caching: bool) -> None:
    for seed, room in ((0, 4000), (1, 30), (2, 60)):
        swaps = swap(asynchronous=asynchronous, reuse=reuse, group=4)
        limits = replace(HOST, swap_blocks=room, caching=caching)
        requests = drawn(seed, rate_per_s=20.0)
        queue = QUEUES.get("priority_trace")(context(3, update_every=4))
        queue.swaps = swaps
        record = Recorder(1, 1)
        twin = reference.ReferenceLoop(
            requests, reference.single_pool(limits, LINEAR, 1), LoopRules(queue=queue), record=record
        )
        done = twin.run()
        assert all(q.made == q.output for q in done)
        assert sum(q.preemptions for q in done) > 20
        one = twin.instances[0]
        assert (one.host, one.used, one.running, swaps.held) == (0, 0, 0, {})
        assert record.totals["kv_max"][0] <= limits.blocks
        assert record.totals["running_max"][0] <= limits.max_seqs


def test_free_copies_cost_nothing_and_costly_ones_are_paid_in_full() -> None:
    free, record = served(swap(block_s=0.0, copy_s=0.0))
    computed_again, _ = served(None, limits=replace(HOST, swap_blocks=0))
    assert free.finish_s.max() < computed_again.finish_s.max()
    paid = swap(block_s=2e-3, copy_s=0.0)
    _, record = served(paid)
    busy = float(record.totals["busy_s"][0])
    assert paid.stalled_s > 0.2
    assert paid.stalled_s == pytest.approx(paid.moved_blocks * 2e-3)
    assert busy > paid.stalled_s


def test_groups_are_bound_by_the_link_single_blocks_by_their_starts() -> None:
    single, group = swap(), swap(group=20)
    assert single.seconds(40) == pytest.approx(40 * 64 * 8e-6)
    assert group.seconds(40) == pytest.approx(40 * 1e-4)
    assert swap(copy_s=0.0).seconds(40) == group.seconds(40)


def test_each_part_of_fastswitch_lowers_the_tail() -> None:
    """Groups, then copies next to iterations, then host copies that are kept."""
    tails, moved = [], []
    for parts in (
        {},
        {"group": 20},
        {"group": 20, "asynchronous": True},
        {"group": 20, "asynchronous": True, "reuse": True},
    ):
        total = blocks = 0.0
        for seed in range(3):
            swaps = swap(block_s=1e-4, copy_s=2e-5, **parts)
            requests, _ = served(swaps, seed, every=10)
            assert (requests.state == DONE).all()
            total += float(np.percentile(requests.finish_s - requests.arrival_s, 95))
            blocks += swaps.moved_blocks / max(requests.preemptions.sum(), 1)
        tails.append(total)
        moved.append(blocks)
    assert tails[0] > tails[1] > tails[2]
    assert moved[3] < 0.75 * moved[2]
    assert tails[3] < 1.02 * tails[2]


def test_scenario() -> None:
    def scenario(**kv: Any) -> dict[str, Any]:
        return {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
            "serving": {
                "pools": [
                    {
                        "queue": {"priority_trace": {"update_every": 20}},
                        "limits": {"max_num_seqs": 16},
                        "kv": {"num_blocks": 400, "prefix_caching": False} | kv,
                    }
                ],
                "traffic": {"rate_per_s": 8, "num_requests": 300, "input_tokens": 500, "output_tokens": 200},
            },
        }

    plain = simulate_serving(scenario(swap_space_bytes="60 GB", swap={"copy_s": 8e-6}))
    fast = {"group_blocks": 20, "asynchronous": True, "reuse": True}
    own = simulate_serving(scenario(swap_space_bytes="60 GB", swap=fast))
    assert plain.completed == own.completed == 300
    assert plain.preemptions > 50
    assert own.e2e_s.mean < plain.e2e_s.mean
    with pytest.raises(BadInput, match="swap_space_bytes"):
        simulate_serving(scenario(swap=fast))


def test_what_a_preempted_request_waits_is_a_time_between_tokens() -> None:
    """Every token after the first of a request that is never computed again is one time between tokens."""
    for asynchronous in (False, True):
        requests, record = served(swap(asynchronous=asynchronous, group=4), limits=replace(HOST, max_seqs=64))
        assert requests.preemptions.sum() > 20
        tokens = float(requests.output_tokens.sum() - len(requests))
        assert record.between_tokens.sum() == pytest.approx(tokens, abs=1e-6)
        stays = (requests.finish_s - requests.first_token_s).sum()
        middle = 1e-5 * 10.0 ** ((np.arange(len(record.between_tokens)) + 0.5) / 200)
        assert (record.between_tokens * middle).sum() == pytest.approx(stays, rel=0.02)
