"""A cluster with more or less of one resource: what sensitivities and the stability of a plan vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windtunnel.specs.cluster import ClusterSpec, MixedCluster


def _matrix(cluster: ClusterSpec, factor: float) -> dict[str, Any]:
    """A faster part at the same watts a rate."""
    device, cap = cluster.device, cluster.power_cap_w
    peaks = {k: v * factor for k, v in device.peak_flop_per_s.items()}
    part = {"peak_flop_per_s": peaks, "tdp_w": device.tdp_w and factor * device.tdp_w}
    return {"device": device.model_copy(update=part), "power_cap_w": cap and factor * cap}


def _memory_bandwidth(cluster: ClusterSpec, factor: float) -> dict[str, Any]:
    rate = cluster.device.memory_bytes_per_s * factor
    return {"device": cluster.device.model_copy(update={"memory_bytes_per_s": rate})}


def _memory(cluster: ClusterSpec, factor: float) -> dict[str, Any]:
    size = cluster.device.memory_bytes * factor
    return {"device": cluster.device.model_copy(update={"memory_bytes": size})}


def _scale_up(cluster: ClusterSpec, factor: float) -> dict[str, Any]:
    rate = cluster.scale_up.bytes_per_s * factor
    return {"scale_up": cluster.scale_up.model_copy(update={"bytes_per_s": rate})}


def _scale_out(cluster: ClusterSpec, factor: float) -> dict[str, Any]:
    rate = cluster.scale_out.nic_bytes_per_s * factor
    return {"scale_out": cluster.scale_out.model_copy(update={"nic_bytes_per_s": rate})}


_PARTS: dict[str, Callable[[ClusterSpec, float], dict[str, Any]]] = {
    "matrix throughput": _matrix,
    "memory bandwidth": _memory_bandwidth,
    "scale-up bandwidth": _scale_up,
    "scale-out bandwidth": _scale_out,
    "device memory": _memory,
}
RESOURCES = tuple(_PARTS)
RATES = tuple(name for name in _PARTS if name != "device memory")


def scaled(cluster: ClusterSpec, resource: str, factor: float) -> ClusterSpec:
    """The cluster, or every group of it, with `factor` times as much of one of `RESOURCES`."""
    update = _PARTS[resource](cluster, factor)
    if isinstance(cluster, MixedCluster):
        update["groups"] = tuple(scaled(group, resource, factor) for group in cluster.groups)
        if resource == "scale-out bandwidth" and cluster.between is not None:
            rate = cluster.between.nic_bytes_per_s * factor
            update["between"] = cluster.between.model_copy(update={"nic_bytes_per_s": rate})
    return cluster.model_copy(update=update)


def amount(cluster: ClusterSpec, resource: str) -> tuple[float, str]:
    """How much of a resource one device has (FLOP/s in 16 bits, bytes/s), or one NIC, and its unit."""
    device = cluster.device
    if resource == "matrix throughput":
        return device.peak("bf16"), "FLOP/s"
    if resource == "memory bandwidth":
        return device.memory_bytes_per_s, "bytes/s"
    if resource == "scale-up bandwidth":
        return cluster.scale_up.bytes_per_s, "bytes/s"
    if resource == "scale-out bandwidth":
        return cluster.scale_out.nic_bytes_per_s, "bytes/s"
    return device.memory_bytes, "bytes"
