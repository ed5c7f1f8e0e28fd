"""A cluster with more or less of one resource, for sensitivities and the stability of a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.plan import TENSOR_CLASSES, Offload


def _matrix(cluster: ClusterSpec, factor: float) -> dict[str, Any]:
    """Update that scales the matrix rates and, with them, the power limit."""
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


def _host_link(cluster: ClusterSpec, factor: float) -> dict[str, Any]:
    rate = cluster.device.pcie_bytes_per_s * factor
    return {"device": cluster.device.model_copy(update={"pcie_bytes_per_s": rate})}


def _host_memory(cluster: ClusterSpec, factor: float) -> dict[str, Any]:
    rate = cluster.host_memory_bytes_per_s
    return {"host_memory_bytes_per_s": rate and factor * rate}


def _drives(cluster: ClusterSpec, factor: float) -> dict[str, Any]:
    drives = cluster.storage
    if drives is None:
        return {}
    rates = {name: getattr(drives, name) * factor for name in ("read_bytes_per_s", "write_bytes_per_s")}
    return {"storage": drives.model_copy(update=rates)}


_PARTS: dict[str, Callable[[ClusterSpec, float], dict[str, Any]]] = {
    "matrix throughput": _matrix,
    "memory bandwidth": _memory_bandwidth,
    "scale-up bandwidth": _scale_up,
    "scale-out bandwidth": _scale_out,
    "device memory": _memory,
}
RESOURCES = tuple(_PARTS)
_OUTSIDE: dict[str, Callable[[ClusterSpec, float], dict[str, Any]]] = {
    "host link": _host_link,
    "host memory bandwidth": _host_memory,
    "drives": _drives,
}
RATES = tuple(name for name in _PARTS if name != "device memory")


def scaled(cluster: ClusterSpec, resource: str, factor: float) -> ClusterSpec:
    """The cluster, or every group of it, with `factor` times as much of one of `RESOURCES`, or `outside` resources."""
    update = (_PARTS | _OUTSIDE)[resource](cluster, factor)
    if isinstance(cluster, MixedCluster):
        update["groups"] = tuple(scaled(group, resource, factor) for group in cluster.groups)
        if resource == "scale-out bandwidth" and cluster.between is not None:
            rate = cluster.between.nic_bytes_per_s * factor
            update["between"] = cluster.between.model_copy(update={"nic_bytes_per_s": rate})
    return cluster.model_copy(update=update)


def amount(cluster: ClusterSpec, resource: str) -> tuple[float, str]:
    """Amount of a resource that one device, or one NIC, has, and its unit (FLOP/s in 16 bits, bytes/s, bytes)."""
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


def outside(cluster: ClusterSpec, offload: Offload) -> tuple[str, ...]:
    """Resources outside the devices that a plan's offloading uses and whose rates are known."""
    tiers = {offload.tier_of(name) for name in TENSOR_CLASSES if getattr(offload, name)}
    found: tuple[str, ...] = ("host link",) if tiers else ()
    if cluster.host_memory_bytes_per_s is not None and tiers - {"cxl"}:
        found += ("host memory bandwidth",)
    return (*found, "drives") if "nvme" in tiers and cluster.storage is not None else found
