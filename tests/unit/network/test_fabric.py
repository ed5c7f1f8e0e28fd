"""Explicit fabrics: paths, busiest links, and what a scenario's fabric does to its collectives."""

from __future__ import annotations

from math import gcd

import numpy as np
import pytest
from collective_flows import max_min, placed, ring_steps, total_s

from windtunnel import catalog
from windtunnel.errors import BadInput
from windtunnel.network.fabric import exchanges, members, slow_down, topology_of
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.network.routing import busiest_s, route
from windtunnel.network.topology import FatTree, TorusGraph, TwoLevel
from windtunnel.specs.cluster import ClusterRef, ClusterSpec

TREE = FatTree(base=TwoLevel(64, 1, 1e30, 1, 1.0), leaf_domains=8, spines=6, oversubscription=2.0, spray=False)


def cluster(topology: str = "fat-tree", oversubscription: float = 1.0, **fabric: object) -> ClusterSpec:
    out = {
        "nics_per_node": 8,
        "nic_bytes_per_s": 50e9,
        "topology": topology,
        "oversubscription": oversubscription,
        "fabric": fabric,
    }
    ref = ClusterRef.model_validate({"device": "h100-sxm-80gb", "nodes": 32, "devices_per_node": 8, "scale_out": out})
    return catalog.resolve_cluster(ref)


def gather_s(of: ClusterSpec, op: str = "all_gather", stride: int = 8) -> float:
    return float(NetworkModel(of).collective(op, 4e9, placement(32 if stride == 8 else 8, stride, 8)).alone_s)


def pairs(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    src = rng.integers(0, 64, count)
    return src, (src + rng.integers(1, 64, count)) % 64


@pytest.mark.parametrize("seed", range(4))
def test_cut_flows_load_links_as_spraying_does_and_planned_ones_little_more(seed: int) -> None:
    src, dst = pairs(seed, 150)
    size = np.random.default_rng(seed).uniform(1.0, 5.0, 150) if seed % 2 else np.ones(150)
    busy = {how: route(TREE, src, dst, size, how) for how in ("spray", "split", "planned", "ecmp")}
    assert busy["split"].busy_s() == pytest.approx(busy["spray"].busy_s(), rel=1e-12)
    assert busy["spray"].busy_s() <= busy["planned"].busy_s() * (1 + 1e-12)
    assert busy["planned"].busy_s() < busy["ecmp"].busy_s()
    pieces = np.bincount(busy["split"].flow, weights=busy["split"].nbytes)
    np.testing.assert_allclose(pieces, size, rtol=1e-9)


@pytest.mark.parametrize(("flows", "spines"), [(8, 6), (12, 8), (5, 5), (3, 7)])
def test_equal_flows_are_cut_as_rarely_as_the_spines_allow(flows: int, spines: int) -> None:
    tree = FatTree(base=TwoLevel(32, 1, 1e30, 1, 1.0), leaf_domains=16, spines=spines, spray=False)
    src = np.arange(flows)
    found = route(tree, src, src + 16, 1.0, "split")
    assert found.cuts == spines - gcd(flows, spines)


def test_equal_flows_end_with_the_busiest_link() -> None:
    src, dst = pairs(9, 200)
    found = route(TREE, src, dst, 1.0, "ecmp")
    assert busiest_s(found.routes, np.ones(200), TREE.capacity) == pytest.approx(
        float(np.max(1.0 / max_min(found.routes, TREE.capacity)))
    )


def test_a_fabric_without_contention_changes_nothing() -> None:
    plain = cluster().model_copy(update={"scale_out": cluster().scale_out.model_copy(update={"fabric": None})})
    for op in ("all_gather", "all_to_all", "all_reduce"):
        assert gather_s(cluster(routing="spray"), op) == gather_s(plain, op)
    assert gather_s(cluster("star")) == gather_s(plain)


def test_hashing_thin_uplinks_and_slow_links_cost_time_and_plans_win_it_back() -> None:
    best = gather_s(cluster(routing="spray", nodes_per_leaf=4, spines=32))
    hashed = gather_s(cluster(routing="ecmp", nodes_per_leaf=4, spines=32))
    planned = gather_s(cluster(routing="planned", nodes_per_leaf=4, spines=32))
    slow = gather_s(
        cluster(routing="planned", nodes_per_leaf=4, spines=32, slow_links=[{"leaf": 0, "spine": 0, "factor": 0.25}])
    )
    assert best == planned < 0.7 * hashed
    assert slow > 2 * planned
    thin = gather_s(cluster(oversubscription=4.0, routing="spray", nodes_per_leaf=4), "all_to_all")
    assert thin > 3 * gather_s(cluster(routing="spray", nodes_per_leaf=4), "all_to_all")


def test_far_neighbours_load_spines_that_near_ones_do_not() -> None:
    far = {"oversubscription": 4.0, "routing": "spray", "nodes_per_leaf": 4}
    assert gather_s(cluster(**far), stride=32) > 2 * gather_s(cluster(routing="spray"), stride=32)  # type: ignore[arg-type]


def test_rails_keep_rings_off_the_spines() -> None:
    thin = {"oversubscription": 8.0, "nodes_per_leaf": 8, "routing": "spray"}
    assert gather_s(cluster("rail-optimised", **thin), stride=32) <= gather_s(cluster("fat-tree", **thin), stride=32)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["dragonfly", "torus", "mesh"])
def test_sparse_fabrics_serve_rings_better_than_all_pairs(kind: str) -> None:
    sparse = (
        {"shape": [8, 4]}
        if kind != "dragonfly"
        else {
            "routers_per_group": 4,
            "nodes_per_router": 2,
            "global_bytes_per_s": 100e9,
        }
    )
    net = cluster(kind, **sparse)  # type: ignore[arg-type]
    full = cluster(routing="spray")
    worse = [gather_s(net, op) / gather_s(full, op) for op in ("all_gather", "all_to_all")]
    assert worse[1] > worse[0] >= 1.0
    assert topology_of(net).num_devices >= 32


def test_a_mesh_has_no_way_round() -> None:
    ends = np.array([0]), np.array([7])
    assert (TorusGraph((8,), 1.0).routes(*ends) >= 0).sum() == 1
    assert (TorusGraph((8,), 1.0, wraps=False).routes(*ends) >= 0).sum() == 7


def test_groups_are_laid_side_by_side() -> None:
    groups = members(8, 4, 2)
    assert groups.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    ((src, dst, _),) = exchanges(groups, "ring")
    assert dict(zip(src.tolist(), dst.tolist(), strict=True)) == {0: 2, 2: 4, 4: 6, 6: 0, 1: 3, 3: 5, 5: 7, 7: 1}
    ((src, dst, _),) = exchanges(groups, "pairs")
    assert len(src) == 8 * 3 and set(((dst - src) % 2).tolist()) == {0}
    ((src, dst, _),) = exchanges(groups, "tree")
    assert len(src) == 2 * 2 * 3 * 2, "two groups, two trees of three edges, up and down"
    doubling = exchanges(members(8, 8, 1), "doubling")
    assert [set(np.abs(dst - src).tolist()) for src, dst, _ in doubling] == [{1}, {2}, {4}]
    assert [share for *_, share in exchanges(members(8, 8, 1), "halving")] == [0.5, 0.25, 0.125]


def test_who_sends_to_whom_decides_what_thin_uplinks_cost() -> None:
    thin = cluster(oversubscription=4.0, routing="spray", nodes_per_leaf=4)
    factor = {
        name: float(slow_down(thin, np.float64(32), np.float64(8), name)[0])
        for name in ("ring", "tree", "halving_doubling", "nvrar", "all_to_all")
    }
    assert factor["ring"] == 1.0, "one node in four sends to another leaf"
    assert 1.0 <= factor["tree"] < factor["nvrar"]
    assert factor["halving_doubling"] < factor["nvrar"] < factor["all_to_all"] <= 4.0


def test_a_ring_placed_across_leaves_meets_itself() -> None:
    tree = FatTree(base=TwoLevel(16, 1, 1e30, 1, 1e9), leaf_domains=4, oversubscription=4.0, spines=1)
    steps = ring_steps("all_gather", 16e6, 16, 1)
    scattered = (np.arange(16) % 4) * 4 + np.arange(16) // 4
    near, far = (total_s(placed(steps, where), tree) for where in (np.arange(16), scattered))
    assert far == pytest.approx(4 * near)


def test_a_slow_port_holds_every_ring_up() -> None:
    even = gather_s(cluster(routing="spray"))
    slow = gather_s(cluster(routing="spray", slow_ports=[{"node": 5, "port": 2, "factor": 0.5}]))
    assert slow > 1.8 * even


def test_bad_fabrics_are_refused_with_what_is_allowed() -> None:
    with pytest.raises((BadInput, ValueError), match=r"spray|spines"):
        cluster(routing="magic", spines=0)
    with pytest.raises(BadInput) as error:
        cluster(
            "torus",
            shape=[3, 5],
            slow_ports=[{"node": 32, "port": 8, "factor": 0.5}],
            slow_links=[{"leaf": 0, "spine": 9, "factor": 0.5}],
        )
    assert len(error.value.problems) == 4
    with pytest.raises(BadInput, match="of a torus or mesh"):
        cluster("fat-tree", shape=[8, 4])
