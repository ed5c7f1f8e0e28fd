"""Rates of the host next to the devices: its memory, and the links over which tensors are copied.

All devices of a node run the same at the same time, so each has an even share of the rates that they share.
"""

from __future__ import annotations

from windtunnel.specs.cluster import ClusterSpec

HOST_LINK_FRACTION = 0.85
"""Payload share of a host link with large pinned copies (PCIe packet headers and flow control)."""
HOST_MEMORY_BYTES_PER_S = 300e9
"""Bytes/s of a node's host memory where the cluster does not state it: two sockets with 8 channels of DDR4-3200 each,
three quarters of 410 GB/s."""


def host_memory_bytes_per_s(cluster: ClusterSpec) -> float:
    """Bytes/s of host memory that one device's updates have: an even share of the node's."""
    return (cluster.host_memory_bytes_per_s or HOST_MEMORY_BYTES_PER_S) / cluster.devices_per_node


def link_bytes_per_s(cluster: ClusterSpec) -> float:
    """Bytes/s of copies between a device and the host in one direction, while all devices copy."""
    return cluster.device.pcie_bytes_per_s * HOST_LINK_FRACTION / cluster.devices_per_host_link
