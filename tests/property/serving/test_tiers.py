"""Levels below the device: counts add up, nothing is over capacity, a level without room changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.serving.deployment import prepare
from windtunnel.serving.kv_tiers.cache import Store, TieredCache
from windtunnel.serving.kv_tiers.level import Line, pipelined
from windtunnel.serving.simulate import serve_requests, with_traffic

pytestmark = pytest.mark.property
SESSIONS = {"turns": {"distribution": "uniform", "min": 2, "max": 5}, "think_time_s": 20}


def scenario(tiers: list[dict[str, Any]], *, blocks: int = 1500, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """Conversations on a device whose cache is small."""
    kv = {"num_blocks": blocks, "prefix_caching": True, "tiers": tiers, **more.pop("kv", {})}
    return {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "serving": {
            "engine": "vllm",
            "engine_version": "0.10.0",
            "pools": [{"replicas": replicas, "kv": kv}],
            "traffic": {
                "rate_per_s": 2,
                "num_requests": 150,
                "input_tokens": 900,
                "output_tokens": 60,
                "sessions": SESSIONS,
                "seed": 3,
            },
            **more,
        },
    }


def test_a_level_without_room_changes_nothing() -> None:
    plain = api.simulate_serving(scenario([]))
    empty = api.simulate_serving(scenario([{"kind": "host", "capacity_bytes": 1.0}]))
    assert plain.record is not None and empty.record is not None
    assert (plain.record.requests.finish_s == empty.record.requests.finish_s).all()
    assert (plain.prefix_hit_rate, empty.kv_tiers["host"]["hit_rate"]) == (empty.prefix_hit_rate, 0.0)


@pytest.mark.parametrize("kinds", [("host",), ("host", "ssd"), ("host", "ssd", "remote"), ("remote",)])
def test_hit_rates_of_levels_add_up_and_are_what_a_cache_without_bounds_has(kinds: tuple[str, ...]) -> None:
    tiers = [{"kind": kind, "capacity_bytes": 4e10 if kind == kinds[-1] else 2e8} for kind in kinds]
    run = api.simulate_serving(scenario(tiers, replicas=2 if "remote" in kinds else 1))
    rates = [level["hit_rate"] for level in run.kv_tiers.values()]
    assert sum(rates) == pytest.approx(run.prefix_hit_rate, abs=2e-3) and len(rates) == len(kinds) + 1
    unbounded = api.simulate_serving(scenario([], blocks=200_000))
    least = unbounded.prefix_hit_rate - 1e-9
    assert run.prefix_hit_rate >= least > api.simulate_serving(scenario([])).prefix_hit_rate
    assert run.kv_tiers[kinds[-1]]["loaded_tokens"] > 0


def test_reading_ahead_while_requests_wait_helps_where_lower_levels_are_slow() -> None:
    tiers = [{"kind": "host", "capacity_bytes": 6e9}, {"kind": "ssd", "capacity_bytes": 8e10, "bytes_per_s": 5e8}]
    busy = {
        "traffic": {
            "rate_per_s": 4,
            "num_requests": 400,
            "input_tokens": 900,
            "output_tokens": 60,
            "seed": 2,
            "sessions": SESSIONS | {"think_time_s": 30},
        }
    }
    found = [api.simulate_serving(scenario(tiers, kv={"tier_prefetch": on}, **busy)) for on in (False, True)]
    assert found[1].kv_tiers["ssd"]["loaded_tokens"] > 0
    assert found[1].ttft_s.mean < found[0].ttft_s.mean
    for run in found:
        rates = sum(level["hit_rate"] for level in run.kv_tiers.values())
        assert rates == pytest.approx(run.prefix_hit_rate, abs=0.02)


def test_a_shared_store_serves_other_instances_and_levels_of_one_do_not() -> None:
    found = {}
    for kind in ("host", "remote"):
        one = scenario([{"kind": kind, "capacity_bytes": 4e10}], replicas=4, router="round_robin", blocks=20_000)
        found[kind] = api.simulate_serving(one)
    assert found["host"].kv_tiers["host"]["loaded_tokens"] == 0
    assert found["remote"].prefix_hit_rate > 1.5 * found["host"].prefix_hit_rate


def test_slower_levels_wait_longer_and_layers_hide_loads() -> None:
    def ttft(rate: float, loading: str) -> float:
        tiers = [{"kind": "host", "capacity_bytes": 4e10, "bytes_per_s": rate, "latency_s": 0.0}]
        return float(api.simulate_serving(scenario(tiers, kv={"tier_loading": loading})).ttft_s.mean)

    rates = [ttft(rate, "layers") for rate in (1e15, 2e10, 1e9)]
    assert rates == sorted(rates) and rates[2] > 1.5 * rates[0]
    assert ttft(1e10, "layers") < ttft(1e10, "whole")
    assert ttft(1e15, "whole") == pytest.approx(rates[0], rel=1e-4)


@given(st.floats(0, 1e3), st.floats(0, 1e3), st.integers(1, 200))
def test_a_pipeline_of_layers_is_between_its_bounds(compute: float, load: float, layers: int) -> None:
    assert max(compute, load) <= pipelined(compute, load, layers) <= compute + load + 1e-9
    assert pipelined(compute, load, 1) == pytest.approx(compute + load)


class Held:
    """A request, as far as a cache looks at it."""

    def __init__(self, chain: list[int], cached: int) -> None:
        self.index, self.chain, self.cached = 0, tuple(chain), cached


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_level_is_over_capacity_and_counts_hold(data: Any) -> None:
    sizes = data.draw(st.lists(st.integers(0, 6), min_size=4, max_size=8))
    levels = [(data.draw(st.integers(0, 10)), Line(kind=name, block_s=1.0, latency_s=0.0)) for name in ("host", "ssd")]
    cache = TieredCache(
        sizes, levels, Store(data.draw(st.integers(0, 12)), len(sizes)), Line(kind="remote", block_s=1.0, latency_s=0.0)
    )
    room = data.draw(st.integers(4, 20))
    held: list[tuple[list[int], int]] = []
    for _ in range(data.draw(st.integers(1, 25))):
        if held and data.draw(st.booleans()):
            chain, nodes = held.pop(data.draw(st.integers(0, len(held) - 1)))
            cache.release(chain[:nodes])
        else:
            order = data.draw(st.permutations(range(len(sizes))))
            chain = list(order[: data.draw(st.integers(1, 3))])
            if data.draw(st.booleans()):
                cache.prefetch(Held(chain, 0), 0.0)  # type: ignore[arg-type]
            known = cache.reusable(Held(chain, 0), 1)  # type: ignore[arg-type]
            assert known <= sum(sizes[u] for u in chain) and known >= cache.find(chain)[0]
            cache.fetch(Held(chain, known), 1, 0.0)  # type: ignore[arg-type]
            nodes = cache.find(chain)[2]
            cache.hold(chain[:nodes])
            nodes, _, _ = cache.register(chain, nodes, sum(sizes[u] for u in chain))
            held.append((chain, nodes))
        cache.evict(room)
        for level in cache.levels:
            assert level.used == sum(level.kept) <= level.capacity and min(level.kept) >= 0
            assert set(level.order) == {u for u, kept in enumerate(level.kept) if kept}
        assert cache.store is not None and cache.store.used == sum(cache.store.kept) <= cache.store.capacity
        for u, size in enumerate(sizes):
            assert cache.resident[u] <= cache.reach(u) <= size


def test_bad_levels_are_refused_with_their_place() -> None:
    with pytest.raises(BadInput) as caught:
        tiers = [{"kind": kind, "capacity_bytes": 1e9} for kind in ("remote", "hots")]
        api.simulate_serving(scenario(tiers))
    fields = [problem.field for problem in caught.value.problems]
    assert fields == ["serving.pools[0].kv.tiers[0].kind", "serving.pools[0].kv.tiers[1].kind"]
    with pytest.raises(BadInput, match="prefix_caching"):
        api.simulate_serving(scenario([{"kind": "host", "capacity_bytes": 1}], kv={"prefix_caching": False}))


@pytest.mark.parametrize("block", [1, 16, 64])
def test_a_tree_of_pages_finds_a_common_prefix_down_to_whole_pages(block: int) -> None:
    """SGLang's radix tree (pages of one token) against hashes of blocks: the same prefix, cut to pages."""
    prefix, prompt = 1003, 1500
    one = scenario([], blocks=4_000_000 // block, kv={"block_size": block})
    if block == 1:
        one["serving"] |= {"engine": "sglang", "engine_version": "0.5.0"}
    one["serving"]["traffic"] = {
        "concurrency": 1,
        "num_requests": 20,
        "input_tokens": prompt,
        "output_tokens": 4,
        "shared_prefix_tokens": prefix,
    }
    run = api.simulate_serving(one)
    assert run.record is not None
    assert run.record.requests.cached_tokens.tolist() == [0] + [prefix // block * block] * 19


def test_calls_leave_the_device_while_their_program_runs_a_tool() -> None:
    """`keep_s` −1 with a host level: what calls leave goes to the host at once; the next call loads it there."""
    calls = [
        {"id": "ask", "input_tokens": 900, "output_tokens": 60},
        {"id": "act", "after": ["ask"], "repeat": 4, "input_tokens": 100, "output_tokens": 60, "tool_s": 5.0},
    ]
    traffic = {"rate_per_s": 1, "num_requests": 30, "agents": [{"name": "agent", "calls": calls}]}
    given = scenario([{"kind": "host", "capacity_bytes": 4e10}], blocks=100_000)
    given["serving"]["traffic"] = traffic
    left, moved = {}, {}
    for keep_s, out in ((0.0, left), (-1.0, moved)):
        d, drawn = with_traffic(prepare(given))
        drawn.requests.keep_s[:] = keep_s
        run = serve_requests(d, drawn.requests)
        assert run.completed == 150
        out |= run.kv_tiers | {"all": run.prefix_hit_rate}
    assert left["host"]["loaded_tokens"] == 0
    assert moved["host"]["hit_rate"] > 0.5
    assert moved["device"]["hit_rate"] == 0.0
    assert moved["all"] == pytest.approx(left["all"], abs=1e-3)
