"""The cluster: nodes with their devices, and what a device draws and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from windtunnel import catalog
from windtunnel.arrays import Ints
from windtunnel.errors import BadInput, Problem
from windtunnel.specs.cluster import ClusterRef, MixedClusterRef
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.jobs import JobsSpec

MOST_DEVICES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Nodes in their order."""

    capacity: Ints
    """Devices of each node."""
    labels: tuple[str, ...]
    """Kind of device of each node: a name of the catalogue, or a label of the user's tables."""
    idle_w: float | None
    """Watts of a device without a job; None: not known."""
    busy_w: float | None
    """Watts of a device with a job of which nothing more is known."""
    price_per_device_hour: float | None
    prices: Mapping[str, float | None]
    """Of a device for an hour, by kind."""
    assumed: tuple[tuple[str, str, str], ...] = ()

    @property
    def devices(self) -> int:
        """Devices of all nodes."""
        return int(self.capacity.sum())

    @property
    def name(self) -> str:
        """Nodes and devices in words."""
        kinds = dict.fromkeys(zip(self.labels, self.capacity.tolist(), strict=True))
        parts = []
        for label, size in kinds:
            count = sum(1 for a, b in zip(self.labels, self.capacity.tolist(), strict=True) if (a, b) == (label, size))
            parts.append(f"{count:,} nodes × {size} {label}")
        return ", ".join(parts)


def room_of(cluster: str | ClusterRef | MixedClusterRef, jobs: JobsSpec) -> Room:
    """The nodes that a scenario's `cluster` means. A device that the catalogue does not know is a label.

    Raises:
        BadInput: an unknown catalogue cluster, or more devices than can be simulated.
    """
    groups = _groups(cluster)
    total = sum(nodes * each for _, nodes, each, _, _ in groups)
    if total > MOST_DEVICES:
        raise BadInput(Problem("cluster.nodes", f"must have at most {MOST_DEVICES:,} devices in all", total))
    capacity = np.concatenate([np.full(nodes, each, np.int64) for _, nodes, each, _, _ in groups])
    labels = tuple(label for label, nodes, _, _, _ in groups for _ in range(nodes))
    known = [device for _, _, _, device, _ in groups]
    sizes = [nodes * each for _, nodes, each, _, _ in groups]
    idle = _mean([None if device is None else device.idle_w for device in known], sizes)
    busy = _mean([None if device is None else device.tdp_w for device in known], sizes)
    price = _mean([price for *_, price in groups], sizes)
    assumed = []
    if jobs.job_watts_per_device is None and busy is not None:
        why = "the device's design power: no trace says what its jobs draw"
        assumed.append(("jobs.job_watts_per_device", f"{busy:g} W", why))
    if jobs.price_per_device_hour is None and price is not None:
        assumed.append(("jobs.price_per_device_hour", f"{price:g} USD", "list price of the device in the catalogue"))
    return Room(
        capacity=capacity,
        labels=labels,
        idle_w=idle if jobs.idle_watts_per_device is None else jobs.idle_watts_per_device,
        busy_w=busy if jobs.job_watts_per_device is None else jobs.job_watts_per_device,
        price_per_device_hour=price if jobs.price_per_device_hour is None else jobs.price_per_device_hour,
        prices={label: own for label, *_, own in groups},
        assumed=tuple(assumed),
    )


_Group = tuple[str, int, int, DeviceSpec | None, float | None]


def _groups(cluster: str | ClusterRef | MixedClusterRef) -> list[_Group]:
    """Label, nodes, devices of a node, device and price of each group."""
    if isinstance(cluster, MixedClusterRef):
        return [one for group in cluster.groups for one in _groups(group)]
    if isinstance(cluster, str):
        found = catalog.cluster(cluster)
        price = found.price_per_device_hour
        return [(found.device.id, found.nodes, found.devices_per_node, found.device, price)]
    device = cluster.device if isinstance(cluster.device, DeviceSpec) else _known(cluster.device)
    label = cluster.device.id if isinstance(cluster.device, DeviceSpec) else cluster.device
    price = cluster.price_per_device_hour
    if price is None and device is not None:
        price = device.price_per_hour
    return [(label, cluster.nodes, cluster.devices_per_node, device, price)]


def _known(name: str) -> DeviceSpec | None:
    try:
        return catalog.device(name)
    except BadInput:
        return None


def _mean(values: list[float | None], sizes: list[int]) -> float | None:
    """Mean over devices; None where one is not known."""
    told = [value for value in values if value is not None]
    if len(told) < len(values):
        return None
    return sum(value * size for value, size in zip(told, sizes, strict=True)) / sum(sizes)
