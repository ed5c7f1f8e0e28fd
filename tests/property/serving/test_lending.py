"""Lent blocks and approximate reuse: nothing is lost, nothing is gained where nothing is needed."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.serving.kv_tiers.lending import Lending

pytestmark = pytest.mark.property
CLUSTER = {"device": "a100-sxm-80gb", "nodes": 2, "devices_per_node": 4}


def scenario(
    kv: dict[str, Any], traffic: dict[str, Any], *, replicas: int = 8, cluster: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Instances of one device."""
    pool = {"replicas": replicas, "limits": {"max_num_seqs": 64, "max_model_len": 65536}, "kv": kv}
    return {
        "model": "meta-llama/Llama-2-7b-hf",
        "cluster": cluster or CLUSTER,
        "serving": {
            "engine": "generic",
            "pools": [pool],
            "router": "least_requests",
            "traffic": {"output_tokens": 40, "num_requests": 80, "offline": True, "seed": 2, **traffic},
        },
    }


def lending(blocks: int = 400, **more: Any) -> dict[str, Any]:
    """A small cache that may lend."""
    return {"num_blocks": blocks, "block_size": 16, "prefix_caching": False, "lending": True, **more}


SPREAD = {"input_tokens": {"distribution": "lognormal", "mean": 1200, "cv": 1.5, "max": 6000}}


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[Lending]:
    """Checks every loan of the runs; returns who lent."""
    seen: list[Lending] = []
    begin, borrow, settle = Lending.begin, Lending.borrow, Lending.settle

    def hold(self: Lending) -> None:
        owed = {one.index: sum(loan.blocks for loan in self.loans[one.index]) for one in self.instances}
        given = {
            one.index: sum(loan.blocks for own in self.loans.values() for loan in own if loan.lender is one)
            for one in self.instances
        }
        assert owed == {one.index: one.borrowed for one in self.instances}
        assert given == {one.index: one.lent for one in self.instances}
        assert all(not (one.lent and one.borrowed) for one in self.instances)
        assert all(one.used <= one.capacity for one in self.instances)

    def begun(self: Lending, instances: Any) -> None:
        begin(self, instances)
        seen.append(self)

    def borrowed(self: Lending, one: Any, blocks: int) -> bool:
        done = borrow(self, one, blocks)
        hold(self)
        return done

    def settled(self: Lending, one: Any) -> None:
        settle(self, one)
        hold(self)

    for name, own in (("begin", begun), ("borrow", borrowed), ("settle", settled)):
        monkeypatch.setattr(Lending, name, own)
    return seen


def test_loans_are_balanced_at_every_step_and_given_back(watched: list[Lending]) -> None:
    run = api.simulate_serving(scenario(lending(), SPREAD))
    (book,) = watched
    assert run.completed == 80 and book.most_lent > 0
    assert not any(book.loans.values()) and all(one.used == 0 for one in book.instances)


def test_a_prompt_that_no_instance_holds_alone_is_served() -> None:
    long = {"input_tokens": {"distribution": "empirical", "values": [500, 500, 500, 12_000]}, "num_requests": 40}
    alone = api.simulate_serving(scenario(lending() | {"lending": False}, long))
    together = api.simulate_serving(scenario(lending(), long))
    assert alone.rejected > 0 and together.rejected == 0 and together.completed == 40
    beyond = {"input_tokens": 60_000, "num_requests": 8}
    assert api.simulate_serving(scenario(lending(), beyond)).rejected == 8


def test_prompts_beyond_the_longest_allowed_are_refused_and_not_cut() -> None:
    one = scenario(lending(), {"input_tokens": 30_000, "num_requests": 4})
    assert api.simulate_serving(one).completed == 4
    one["serving"]["pools"][0]["limits"]["max_model_len"] = 20_000
    assert api.simulate_serving(one).rejected == 4


def test_many_prompts_that_no_instance_holds_alone_are_all_served() -> None:
    traffic = {"input_tokens": {"distribution": "empirical", "values": [300, 9000, 12_000, 20_000]}, "num_requests": 60}
    for arrivals in ({"offline": True}, {"offline": False, "rate_per_s": 4.0}):
        run = api.simulate_serving(scenario(lending(), {**traffic, **arrivals}))
        assert run.rejected == 0 and run.record is not None
        assert bool((run.record.requests.finish_s > 0).all())


def test_where_nobody_is_short_nothing_changes() -> None:
    light = {"input_tokens": 200, "num_requests": 40}
    runs = [api.simulate_serving(scenario(lending(5000) | {"lending": on}, light)) for on in (False, True)]
    assert runs[0].duration_s == runs[1].duration_s and runs[1].kv_tiers["lending"]["most_lent_share"] == 0.0


def test_slow_links_cost() -> None:
    slow = CLUSTER | {"scale_up": {"id": "slow", "family": "generic", "bytes_per_s": 1e9, "latency_s": 1e-3}}
    fast, late = (api.simulate_serving(scenario(lending(), SPREAD, cluster=c)) for c in (CLUSTER, slow))
    assert late.duration_s > fast.duration_s
    assert late.kv_tiers["lending"]["exchange_share"] > fast.kv_tiers["lending"]["exchange_share"] > 0


def test_lending_is_refused_where_it_is_not_simulated() -> None:
    with pytest.raises(BadInput, match="nobody to lend"):
        api.simulate_serving(scenario(lending(), SPREAD, replicas=1))


def similar(**more: Any) -> dict[str, Any]:
    """Prompts of 4,000 tokens, one at a time."""
    kv = {"prefix_caching": True, "similar": {"share": 1.0, "matched": 1.0, "recomputed": 0.0, **more}}
    return scenario(kv, {"input_tokens": 4000, "offline": False, "concurrency": 1, "num_requests": 30}, replicas=1)


def test_what_resembles_is_not_computed_again() -> None:
    plain = api.simulate_serving(similar(share=0.0))
    ttft = [api.simulate_serving(similar(recomputed=r)).ttft_s.p50 for r in (0.05, 0.2, 0.5, 1.0)]
    assert ttft == sorted(ttft) and ttft[0] < 0.4 * plain.ttft_s.p50
    assert ttft[-1] == pytest.approx(plain.ttft_s.p50, rel=0.02)
    half = api.simulate_serving(similar(share=0.5, recomputed=0.05))
    assert half.prefix_hit_rate == pytest.approx(0.5 * 0.95, abs=0.2)


def test_prompts_that_left_the_host_are_not_taken_over() -> None:
    few = api.simulate_serving(similar(recomputed=0.1, capacity_bytes=3e9))  # one prompt of 4,000 tokens: 2.1 GB
    many = api.simulate_serving(similar(recomputed=0.1, capacity_bytes=1e12))
    assert few.prefix_hit_rate < 0.35 < 0.85 < many.prefix_hit_rate
