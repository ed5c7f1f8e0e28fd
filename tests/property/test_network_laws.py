"""Laws of the network model: closed forms against flows, monotony, conservation, selection masks."""

from __future__ import annotations

import collective_flows as flows
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windtunnel.network import NetworkModel, clock, placement
from windtunnel.network.collectives import ALGORITHMS, get
from windtunnel.network.collectives.all_to_all import AllToAllLoad, all_to_all_traffic
from windtunnel.network.topology import TorusGraph, TwoLevel
from windtunnel.specs.cluster import ClusterSpec, ScaleOut
from windtunnel.specs.device import DeviceSpec, LinkSpec

pytestmark = pytest.mark.property
UP, NIC, SIZE = 370e9, 48e9, 64e6
MODEL = NetworkModel(
    ClusterSpec(
        name="c",
        device=DeviceSpec(
            id="d",
            name="D",
            vendor="v",
            generation="hopper",
            peak_flop_per_s={"bf16": 1e15},
            memory_bytes=80e9,
            memory_bytes_per_s=3e12,
        ),
        nodes=512,
        devices_per_node=8,
        scale_up_domain=8,
        scale_up=LinkSpec(id="nvlink4", family="nvlink4", bytes_per_s=450e9, in_network_reduction=True),
        scale_out=ScaleOut(nics_per_node=8, nic_bytes_per_s=50e9, in_network_reduction=True),
    )
)


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
    even, uneven = all_to_all_traffic(SIZE, place), all_to_all_traffic(SIZE, place, AllToAllLoad(imbalance=imbalance))
    fewer = all_to_all_traffic(SIZE, place, AllToAllLoad(unique_out_fraction=unique))
    assert float(even.up_bytes + even.out_bytes) <= SIZE
    assert float(uneven.up_bytes) == pytest.approx(imbalance * float(even.up_bytes))
    assert float(fewer.out_bytes) <= float(even.out_bytes)


ALGORITHM_OPS = [(name, op) for name in sorted(ALGORITHMS) for op in sorted(ALGORITHMS[name].ops)]


@pytest.mark.parametrize(("name", "op"), ALGORITHM_OPS)
def test_more_bytes_never_take_less_and_never_beat_the_wire(name: str, op: str) -> None:
    sizes = np.geomspace(1e3, 1e11, 40)
    for n in (2, 8, 64, 1000):
        if op == "send_recv" and n > 2:
            continue
        place = placement(n, 1, 8)
        t = MODEL.collective(op, sizes, place, algorithm=name)
        assert np.all(np.diff(t.alone_s) >= 0)
        assert np.all(t.alone_s >= t.latency_s)
        assert np.all(t.alone_s >= t.work_scale_out_bytes / 50e9)
        assert np.all(t.alone_s * 450e9 >= t.work_scale_up_bytes)
        assert np.all(t.latency_s > 0) and np.all(t.hbm_bytes > 0)


@given(st.integers(2, 4096), st.floats(1e3, 1e11))
@settings(max_examples=60, deadline=None)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(n: int, size: float) -> None:
    place = placement(n, 1, 8)
    names = ["ring", "direct", "hierarchical"] + (["halving_doubling"] if n & (n - 1) == 0 else [])
    for name in names:  # folding the ranks beyond a power of two is paid once by each
        whole, scatter, gather = (
            get(name).traffic(op, np.asarray(size), place) for op in ("all_reduce", "reduce_scatter", "all_gather")
        )
        assert float(whole.up_bytes) == pytest.approx(float(scatter.up_bytes + gather.up_bytes))
        assert float(whole.out_bytes) == pytest.approx(float(scatter.out_bytes + gather.out_bytes))


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_selection_is_complete_and_what_it_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, ranks = 10 ** rng.uniform(2, 10.5, 20), 2 ** rng.integers(1, 13, 20)
    for op in ("all_reduce", "all_gather", "broadcast"):
        t = MODEL.collective(op, sizes, placement(ranks, 1, 8))
        assert np.all(t.alone_s > 0) and np.all(t.algorithm != "")
        name, _, protocol = str(t.algorithm[0]).partition("/")
        again = MODEL.collective(op, sizes[0], placement(ranks[0], 1, 8), algorithm=name, protocol=protocol or None)
        assert float(again.alone_s) == float(t.alone_s[0])


@pytest.mark.parametrize("shape", [(4,), (8,), (4, 4), (8, 8), (4, 4, 4)])
def test_torus_all_to_all_equals_flows(shape: tuple[int, ...]) -> None:
    n, link = int(np.prod(shape)), 50e9
    by_flows = flows.total_s(flows.pairwise_steps(SIZE, n), TorusGraph(shape, link))
    place = placement(n, 1, n, torus_axes=len(shape), torus_hops=sum(shape) // 2)
    t = get("torus").traffic("all_to_all", np.asarray(SIZE), place)
    assert float(t.up_bytes) / (2 * len(shape) * link) == pytest.approx(by_flows, rel=1e-3)
