"""Placement, algorithms, selector and clock of the network model."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.network import Mesh, NetworkModel, placement
from windtunnel.network.collectives import ALGORITHMS, get
from windtunnel.specs.cluster import ClusterSpec, ScaleOut
from windtunnel.specs.device import DeviceSpec, LinkSpec

LINKS = {
    "nvlink3": (300e9, False),
    "nvlink4": (450e9, True),
    "nvlink5": (900e9, True),
}


def cluster(
    nodes: int = 16, link: str = "nvlink4", per_node: int = 8, domain: int = 8, nics: int = 8, **out: object
) -> ClusterSpec:
    rate, nvls = LINKS[link]
    device = DeviceSpec(
        id="d",
        name="D",
        vendor="v",
        generation={"nvlink3": "ampere", "nvlink4": "hopper", "nvlink5": "blackwell"}[link],
        peak_flop_per_s={"bf16": 1e15},
        memory_bytes=80e9,
        memory_bytes_per_s=3e12,
    )
    return ClusterSpec(
        name="c",
        device=device,
        nodes=nodes,
        devices_per_node=per_node,
        scale_up_domain=domain,
        scale_up=LinkSpec(id=link, family=link, bytes_per_s=rate, in_network_reduction=nvls),
        scale_out=ScaleOut(nics_per_node=nics, nic_bytes_per_s=50e9, **out),
    )


@pytest.mark.parametrize(
    ("size", "stride", "domain", "inside", "domains"),
    [
        (8, 1, 8, 8, 1),
        (8, 8, 8, 1, 8),
        (16, 1, 8, 8, 2),
        (4, 2, 8, 4, 1),
        (4, 4, 8, 2, 2),
        (6, 1, 4, 4, 2),
        (1, 1, 8, 1, 1),
        (64, 1, 72, 64, 1),
        (144, 1, 72, 72, 2),
        (3, 5, 8, 2, 2),
    ],
)
def test_placement_counts_ranks_and_domains(size: int, stride: int, domain: int, inside: int, domains: int) -> None:
    place = placement(size, stride, domain)
    assert (float(place.ranks_per_domain), float(place.num_domains)) == (inside, domains)


def test_placement_broadcasts() -> None:
    place = placement(np.array([2, 4, 8, 16]), np.array([[1], [8]]), 8)
    assert place.ranks_per_domain.shape == (2, 4)
    assert place.num_domains.tolist() == [[1, 1, 1, 2], [2, 4, 8, 16]]


def test_mesh_products_of_axes() -> None:
    mesh = Mesh({"tp": 4, "cp": 2, "dp": 4, "pp": 4}, ("tp", "cp", "dp", "pp"), cluster())
    tp, dp, both = mesh.placement("tp"), mesh.placement("dp"), mesh.placement("tp", "dp")
    assert (float(tp.size), float(tp.num_domains), float(tp.groups_per_domain)) == (4, 1, 2)
    assert (float(dp.num_domains), float(dp.groups_per_domain), float(dp.stride)) == (4, 8, 8)
    assert (float(both.size), float(both.ranks_per_domain), float(both.num_domains)) == (16, 4, 4)
    assert mesh.ranks("tp", "dp").tolist()[:5] == [0, 1, 2, 3, 8]


def test_mesh_counts_where_sizes_do_not_divide() -> None:
    mesh = Mesh({"tp": 6, "dp": 8}, ("tp", "dp"), cluster(nodes=6))
    tp = mesh.placement("tp")  # 6 ranks over domains of 8: the group 6..11 straddles
    assert (float(tp.ranks_per_domain), float(tp.num_domains)) == (6, 2)


def test_mesh_refuses_unknown_axes() -> None:
    with pytest.raises(ValueError, match="axes zp"):
        Mesh({"zp": 2}, ("tp",), cluster())
    with pytest.raises(ValueError, match="axis zp"):
        Mesh({"tp": 2}, ("tp",), cluster()).placement("zp")


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_one_rank_moves_nothing(name: str) -> None:
    for op in get(name).ops:
        t = get(name).traffic(op, np.asarray(1e6), placement(1, 1, 8))
        assert float(t.up_bytes) == float(t.out_bytes) == 0.0


def test_ring_bytes_and_hops() -> None:
    t = get("ring").traffic("all_reduce", np.asarray(32e6), placement(32, 1, 8))
    total = 2 * 31 / 32 * 32e6
    assert float(t.out_bytes) == pytest.approx(total / 8)
    assert float(t.up_bytes) == pytest.approx(total * 7 / 8)
    assert float(t.up_hops + t.out_hops) == 62


def test_nic_share_follows_concurrent_groups() -> None:
    model = NetworkModel(cluster())
    alone = model.collective("all_gather", 1e9, placement(16, 8, 8, active_per_domain=1), algorithm="ring")
    full = model.collective("all_gather", 1e9, placement(16, 8, 8), algorithm="ring")
    assert float(full.alone_s) == pytest.approx(float(alone.alone_s), rel=1e-9)  # own NIC each
    one_nic = NetworkModel(cluster(nics=1))
    shared = one_nic.collective("all_gather", 1e9, placement(16, 8, 8), algorithm="ring")
    assert float(shared.alone_s) > 6 * float(full.alone_s)


def test_errors_name_the_choices() -> None:
    model = NetworkModel(cluster())
    with pytest.raises(ValueError, match="one of all_reduce"):
        model.collective("gossip", 1.0, placement(8))
    with pytest.raises(ValueError, match="algorithm = magic"):
        model.collective("all_reduce", 1.0, placement(8), algorithm="magic")
    with pytest.raises(ValueError, match="not all_to_all"):
        model.collective("all_to_all", 1.0, placement(8), algorithm="ring")
