"""Reductions of a server by link: engines' own kernels where they work, the library's elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel import catalog
from windtunnel.cost.serving import serving_coefficients
from windtunnel.errors import ProblemList
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.serving.iteration.instance_shape import shape_of
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.specs.cluster import ClusterRef, ClusterSpec
from windtunnel.specs.serving import ServingPlan, ServingPrecision


def cluster_of(device: str, count: int, nodes: int = 1) -> ClusterSpec:
    return catalog.resolve_cluster(ClusterRef(device=device, nodes=nodes, devices_per_node=count))


def all_reduce_s(device: str, count: int, nodes: int = 1, rows: float = 1.0) -> float:
    """Seconds of one all-reduce of a model whose rows are 8 KiB."""
    model, cluster = catalog.model("meta-llama/Llama-3.1-8B"), cluster_of(device, count, nodes)
    shape = shape_of(model, cluster, ServingPlan(tp=count * nodes), ServingPrecision(), "plan", ProblemList())
    layers = Layers(model, cluster, shape, serving_coefficients("vllm", "0.11.0", cluster.device), 0.85)
    return float(layers._all_reduce(np.array([rows]))[0])


def library_s(device: str, count: int) -> float:
    cluster = cluster_of(device, count)
    where = placement(count, 1, cluster.scale_up_domain)
    return float(NetworkModel(cluster).collective("all_reduce", np.array([8192.0]), where).alone_s[0])


@pytest.mark.parametrize(("device", "count"), [("rtx-4090", 2), ("rtx-4090", 4), ("l40s-48gb", 4)])
def test_pcie_takes_the_library(device: str, count: int) -> None:
    assert all_reduce_s(device, count) == pytest.approx(library_s(device, count))


def test_without_peer_access_a_hop_goes_through_host_memory() -> None:
    # 42.6 us for 8 B over eight RTX 4090 (NVIDIA/nccl issue 1530)
    cluster = cluster_of("rtx-4090", 8)
    eight = NetworkModel(cluster).collective("all_reduce", np.array([8.0]), placement(8, 1, 8)).alone_s[0]
    assert eight == pytest.approx(42.6e-6, rel=0.1)
    assert all_reduce_s("rtx-4090", 2) > 1.15 * library_s("l40s-48gb", 2)


def test_nvlink_keeps_the_engines_own_kernel() -> None:
    assert all_reduce_s("h100-sxm-80gb", 8) < library_s("h100-sxm-80gb", 8)


def test_small_messages_between_nodes() -> None:
    # 61.6 us for 128 B over two nodes of eight H100 (NVIDIA/nccl issue 1453)
    assert 45e-6 < all_reduce_s("h100-sxm-80gb", 8, nodes=2) < 75e-6


def test_messages_of_a_node_share_its_port() -> None:
    # 1,619 us for 1 KiB over four virtual machines of four V100 (apex_plus), 192 us with one in each
    link = {"family": "ethernet_vm"}
    cluster = cluster_of("v100-pcie-16gb", 4, nodes=4)
    out = cluster.scale_out.model_copy(update=link)
    slow = cluster.model_copy(update={"scale_out": out.model_copy(update={"nics_per_node": 1})})
    many, few = (
        float(NetworkModel(slow).collective("all_to_all", np.array([1024.0]), placement(n, 4 // m, 4)).alone_s[0])
        for n, m in ((16, 4), (4, 1))
    )
    assert many == pytest.approx(1619e-6, rel=0.2)
    assert few == pytest.approx(192e-6, rel=0.4)
