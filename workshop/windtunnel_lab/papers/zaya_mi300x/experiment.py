"""Parameters of the model, and what devices and ports of its cluster reach."""

from __future__ import annotations

from functools import partial

import numpy as np

from windtunnel import catalog, graph
from windtunnel.cost.coefficients import coefficients
from windtunnel.cost.gemm import Products, gemm_time_s
from windtunnel.graph import Batch
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.specs.cluster import ClusterRef, ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "zaya-mi300x")
fixed = EXPERIMENT.fixed


def cluster() -> ClusterSpec:
    """All nodes, one port a device."""
    given = {"device": "mi300x", "nodes": fixed("nodes"), "devices_per_node": 8, "scale_out": "8 x pollara-400g"}
    return catalog.resolve_cluster(ClusterRef.model_validate(given))


def billions(_: Values, *, active: bool) -> float:
    """Parameters of the layers."""
    model = ModelSpec.model_validate(fixed("model"))
    if active:
        model = model.model_copy(update={"num_experts": model.num_experts_per_tok})
    built = graph.build(model, Batch.train(1, 4096))
    return sum(built.blocks[kind].params for kind in built.depth) / 1e9


def peak_pflops(_: Values) -> float:
    """PFLOP/s of all devices in a matrix product of three equal dimensions."""
    where, side = cluster(), np.array(float(fixed("side")))
    known = coefficients(fixed("framework"), where.device)
    seconds = gemm_time_s(
        where.device,
        known,
        Products(
            m=side,
            n=side,
            k=side,
            peak_flop_per_s=np.array(where.device.peak("bf16")),
            fraction=np.array(known.gemm_fraction["bf16"]),
            operand_bytes=np.array(2.0),
            output_bytes=np.array(2.0),
            extra_bytes=np.array(0.0),
            groups=np.array(1.0),
        ),
    )
    return float(2.0 * side**3 / seconds) * where.num_devices / 1e15


def port_share(_: Values) -> float:
    """Rate at which an all-reduce's bytes cross a node's ports, over theirs."""
    where = cluster()
    network = NetworkModel(where, NetworkCoefficients.for_cluster(where))
    nodes, size = where.nodes, fixed("message_gib") * 2.0**30
    one = network.collective("all_reduce", size, placement(where.num_devices, 1, where.scale_up_domain))
    crossed = 2.0 * (nodes - 1) / nodes * size
    return float(crossed / float(one.alone_s) / (where.scale_out.nics_per_node * where.scale_out.nic_bytes_per_s))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "size/total": partial(billions, active=False),
        "size/active": partial(billions, active=True),
        "peak": peak_pflops,
        "network": port_share,
    }
