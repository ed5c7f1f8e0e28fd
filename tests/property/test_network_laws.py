"""Laws of the network model: closed forms against flows, monotony, conservation, selection masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windtunnel.network import clock, flows, placement
from windtunnel.network.collectives import get
from windtunnel.network.collectives.all_to_all import all_to_all_traffic
from windtunnel.network.topology import TwoLevel

pytestmark = pytest.mark.property
UP, NIC, SIZE = 370e9, 48e9, 64e6


def closed(algorithm: str, op: str, n: int, m: int, nics: int, hop_s: float) -> float:
    """Closed form with plain rates: transfer of the busiest port plus hops."""
    place = placement(n, 1, m)
    t = get(algorithm).traffic(op, np.asarray(SIZE), place)
    rate = clock.Rates(np.asarray(UP), np.asarray(UP), np.asarray(NIC * nics / m))
    return float(clock.transfer_s(t, rate, np.asarray(1.0)) + (t.up_hops + t.out_hops) * hop_s)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather"])
@pytest.mark.parametrize(
    ("k", "m", "nics"), [(1, 8, 8), (2, 8, 8), (4, 8, 4), (5, 6, 6), (16, 8, 8), (64, 4, 1), (128, 8, 8)]
)
def test_ring_equals_flows(op: str, k: int, m: int, nics: int) -> None:
    net = TwoLevel(k, m, UP, nics, NIC)
    by_flows = flows.total_s(flows.ring_steps(op, SIZE, k * m, m), net, 2e-6)
    assert closed("ring", op, k * m, m, nics, 2e-6) == pytest.approx(by_flows, rel=1e-3)


@pytest.mark.parametrize(("k", "m", "nics"), [(1, 8, 8), (2, 8, 8), (8, 8, 4), (32, 4, 4), (128, 8, 8)])
def test_halving_doubling_equals_flows(k: int, m: int, nics: int) -> None:
    net = TwoLevel(k, m, UP, nics, NIC)
    by_flows = flows.total_s(flows.halving_doubling_steps("all_reduce", SIZE, k * m), net, 2e-6)
    assert closed("halving_doubling", "all_reduce", k * m, m, nics, 2e-6) == pytest.approx(by_flows, rel=1e-3)


@pytest.mark.parametrize(
    ("k", "m", "nics"), [(1, 8, 8), (2, 8, 8), (3, 8, 8), (4, 8, 4), (13, 4, 4), (32, 8, 8), (128, 8, 8)]
)
def test_tree_equals_flows(k: int, m: int, nics: int) -> None:
    net = TwoLevel(k, m, UP, nics, NIC)
    by_flows = flows.total_s(flows.tree_steps(SIZE, k * m, m), net, 2e-6)
    assert closed("tree", "all_reduce", k * m, m, nics, 2e-6) == pytest.approx(by_flows, rel=1e-3)


@pytest.mark.parametrize(("k", "m"), [(1, 8), (2, 8), (8, 4)])
def test_all_to_all_equals_flows(k: int, m: int) -> None:
    net = TwoLevel(k, m, UP, m, NIC)
    by_flows = flows.total_s(flows.pairwise_steps(SIZE, k * m), net)
    assert closed("all_to_all", "all_to_all", k * m, m, m, 0.0) == pytest.approx(by_flows, rel=1e-3)


@given(st.integers(2, 40), st.integers(1, 12), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_max_min_is_feasible_and_bottlenecked(num_flows: int, links: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    routes = np.where(rng.random((num_flows, 3)) < 0.7, rng.integers(0, links, (num_flows, 3)), -1)
    routes[:, 0] = rng.integers(0, links, num_flows)
    for column in (1, 2):  # no link twice on a route
        for before in range(column):
            routes[routes[:, column] == routes[:, before], column] = -1
    capacity = rng.uniform(1, 10, links)
    rate = flows.max_min(routes, capacity)
    load = np.zeros(links)
    for flow, route in enumerate(routes):
        for link in route[route >= 0]:
            load[link] += rate[flow]
    assert np.all(load <= capacity * (1 + 1e-9))
    for flow, route in enumerate(routes):  # some saturated link on the route where nobody is faster
        used = route[route >= 0]
        full = [k for k in used if load[k] >= capacity[k] * (1 - 1e-9)]
        assert any(np.all(rate[(routes == k).any(axis=1)] <= rate[flow] * (1 + 1e-9)) for k in full)


@given(st.integers(1, 200), st.integers(1, 16), st.sampled_from([1, 2, 4, 8, 72]))
@settings(max_examples=80, deadline=None)
def test_placement_equals_counting(size: int, stride: int, domain: int) -> None:
    where = (np.arange(size) * stride) // domain
    place = placement(size, stride, domain)
    _, counts = np.unique(where, return_counts=True)
    assert float(place.ranks_per_domain) == counts.max()
    if stride <= domain:
        assert float(place.num_domains) == len(counts)


@given(st.integers(2, 512), st.floats(1.0, 8.0), st.floats(0.05, 1.0))
@settings(max_examples=60, deadline=None)
def test_all_to_all_imbalance_only_adds(n: int, imbalance: float, unique: float) -> None:
    place = placement(n, 1, 8)
    even, uneven = all_to_all_traffic(SIZE, place), all_to_all_traffic(SIZE, place, imbalance=imbalance)
    fewer = all_to_all_traffic(SIZE, place, unique_out_fraction=unique)
    assert float(even.up_bytes + even.out_bytes) <= SIZE
    assert float(uneven.up_bytes) == pytest.approx(imbalance * float(even.up_bytes))
    assert float(fewer.out_bytes) <= float(even.out_bytes)
