"""Two clusters with unlike networks against homogeneous ones, each with the fastest plan of the same space."""

from __future__ import annotations

from functools import partial
from typing import Any

from windtunnel_lab.reproduce.claims import Measure, planned, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def network(kind: str, values: Values) -> Any:
    """A node's ports: InfiniBand, RoCE or Ethernet."""
    if kind == "ethernet":
        rate = values["ethernet_gbit"] * 1e9 / 8
        return {"nics_per_node": 1, "nic_bytes_per_s": rate, "latency_s": 2e-5, "family": "ethernet"}
    return f"{values['rdma_ports']} x {'infiniband-hdr' if kind == 'infiniband' else 'roce-200g'}"


def nodes(number: int, kind: str, values: Values) -> Values:
    """Some nodes with one network."""
    per_node = fixed("devices_per_node")
    return {
        "device": fixed("device"),
        "nodes": number,
        "devices_per_node": per_node,
        "scale_out": network(kind, values),
    }


def step_s(values: Values, cluster: Values, crossing: str = "") -> float:
    """Seconds of a step under the fastest plan of the space."""
    training = {
        "seq_len": fixed("seq_len"),
        "global_batch": values["global_batch"],
        "precision": fixed("precision"),
        "framework": fixed("framework"),
    }
    space = dict(fixed("space"))
    if crossing:
        space["group_axis"] = [crossing]
    step = {"model": values["model"], "cluster": cluster, "training": training, "search": {"space": space}}
    return simulated(planned(step)).step_time_s


def alone_s(values: Values, kind: str) -> float:
    """All nodes in one cluster with one network."""
    return step_s(values, nodes(2 * fixed("nodes_per_group"), kind, values))


def joined_s(values: Values, crossing: str = "") -> float:
    """Half of the nodes on InfiniBand, half on RoCE, Ethernet between; absent: the faster axis crosses them."""
    if not crossing:
        return min(joined_s(values, axis) for axis in ("dp", "pp"))
    groups = [nodes(fixed("nodes_per_group"), kind, values) for kind in ("infiniband", "roce")]
    between = network("ethernet", values)
    return step_s(values, {"groups": groups, "between": between}, crossing)


def over(values: Values, kind: str) -> float:
    """Throughput of the joined clusters over that of one network alone."""
    return alone_s(values, kind) / joined_s(values)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "close/roce": partial(over, kind="roce"),
        "close/infiniband": partial(over, kind="infiniband"),
        "above-ethernet": partial(over, kind="ethernet"),
        "pipeline-crosses": lambda v: joined_s(v, "dp") / joined_s(v, "pp"),
    }
