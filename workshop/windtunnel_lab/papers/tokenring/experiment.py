"""Step times of a token ring on four cards, from the network model and the ring's own step."""

from __future__ import annotations

import numpy as np

from windtunnel import catalog
from windtunnel.network.groups import GroupPlacement
from windtunnel.network.model import NetworkModel
from windtunnel.parallel.context import LSE_BYTES
from windtunnel.specs.cluster import ClusterRef
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def query_bytes() -> float:
    """Queries of one rank; its outputs, its keys and its values are as large each."""
    return float(fixed("tokens") / fixed("gpus") * fixed("heads") * fixed("head_dim") * fixed("element_bytes"))


def step_ms(values: Values, ahead: float, back: float) -> float:
    """Milliseconds of a step's messages between cards whose single message has the ring's rate."""
    flow = 2.0 * query_bytes() / (fixed("ring_step_ms") * 1e-3)
    # the port's rate is stated as reached; the family's own factor is taken out
    link = {"id": "pcie", "family": "pcie4", "latency_s": "2.5 us", "topology": "host", "bytes_per_s": 1e9}
    cards = {"device": "a10-24gb", "nodes": 1, "devices_per_node": fixed("gpus"), "scale_up": link}
    plain = catalog.resolve_cluster(ClusterRef.model_validate(cards))
    factor = NetworkModel(plain).params.up.efficiency
    port = {"bytes_per_s": values["port_gb_per_s"] * 1e9 / factor, "flow_bytes_per_s": flow}
    cluster = plain.model_copy(update={"scale_up": plain.scale_up.model_copy(update=port)})
    one, two = np.asarray(1.0), np.asarray(2.0)
    pair = GroupPlacement(
        size=two,
        ranks_per_domain=two,
        num_domains=one,
        groups_per_domain=two,
        stride=one,
        torus_axes=one,
        torus_hops=one,
    )
    network = NetworkModel(cluster)
    found = network.two_flows(ahead, back, pair) if back else network.collective("send_recv", ahead, pair)
    return 1e3 * float(found.alone_s)


def queries(values: Values) -> float:
    """A step without outputs to send back."""
    return step_ms(values, query_bytes(), 0.0)


def both(values: Values) -> float:
    """A step with queries ahead, outputs and their statistics back."""
    rows = fixed("tokens") / fixed("gpus") * fixed("heads") * LSE_BYTES
    return step_ms(values, query_bytes(), query_bytes() + rows)


def gain(values: Values) -> float:
    """Three steps of the ring over the same of a token ring: two with queries alone, one with both, outputs at last."""
    ring = (fixed("gpus") - 1) * fixed("ring_step_ms")
    return float(ring / (2.0 * queries(values) + both(values) + queries(values)))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"step/queries": queries, "step/both": both, "throughput": gain}
