"""A cluster: devices in nodes, a scale-up network inside, a scale-out network between."""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from windtunnel.errors import BadInput, Problem
from windtunnel.specs.base import (
    Bytes,
    BytesPerS,
    Count,
    LinkBytesPerS,
    MemoryBytes,
    MemoryBytesPerS,
    Seconds,
    Spec,
    name_of_digits,
)
from windtunnel.specs.device import DeviceSpec, LinkSpec


class SlowLink(Spec):
    """A link between a leaf and a spine switch that runs below its rate, both ways."""

    leaf: int = Field(ge=0)
    """Number of the leaf switch, from 0."""
    spine: int = Field(ge=0)
    """Number of the spine switch, from 0."""
    factor: float = Field(ge=0.01, le=1.0)
    """Share of the link's rate that is left; a link that is down is best stated as one spine less."""


class SlowPort(Spec):
    """A port of a node that runs below the others' rate, both ways."""

    node: int = Field(ge=0)
    """Number of the node, from 0."""
    port: int = Field(default=0, ge=0)
    """Number of the port on that node, from 0."""
    factor: float = Field(ge=0.01, le=1.0)
    """Share of the port's rate that is left."""


class Fabric(Spec):
    """The switches between the ports, as far as flows can meet there; `scale_out.topology` says which kind it is.

    Fat trees and rail-optimised fabrics read `nodes_per_leaf`, `spines`, `routing`, `flows_per_port`, `seed` and
    `slow_links`; dragonflies the fields of routers; tori and meshes `shape`. A star has nothing to state.
    """

    nodes_per_leaf: Count = 16
    """Nodes below one leaf switch (rail-optimised: below the leaves of one rail group)."""
    spines: Count = 8
    """Spine switches, each joined to every leaf by one link: as fast as the ports of the leaf together, over the spines
    and over `scale_out.oversubscription`."""
    routing: Literal["spray", "ecmp", "planned", "split"] = "ecmp"
    """spray: every packet may take another spine; ecmp: a flow is hashed onto one; planned: flows are given spines so
    that no link carries more of them than it must; split: as many flows as needed are cut, each piece on one spine."""
    flows_per_port: int = Field(default=1, gt=0, le=1024)
    """Connections over which a port sends to one other port (queue pairs); each takes a path of its own."""
    seed: int = Field(default=0, ge=0)
    """Seed of the hash that gives a flow its spine."""
    slow_links: tuple[SlowLink, ...] = ()
    """Links between leaf and spine switches that run below their rate."""
    slow_ports: tuple[SlowPort, ...] = ()
    """Ports that differ: every ring has a flow through each, so that it goes at the pace of the slowest."""
    routers_per_group: Count = 16
    """Dragonfly: routers of a group."""
    nodes_per_router: Count = 1
    """Dragonfly: nodes on one router."""
    local_bytes_per_s: BytesPerS | None = Field(default=None, gt=0)
    """Between two routers of a dragonfly's group; absent: as all ports of a router."""
    global_bytes_per_s: BytesPerS | None = Field(default=None, gt=0)
    """Between two groups of a dragonfly; absent: ports of a group over the other groups."""
    shape: tuple[Count, ...] = ()
    """Sides of a torus or mesh, in nodes, fastest-varying first; absent: one line."""


class ScaleOut(Spec):
    """The network between nodes (between scale-up domains)."""

    nics_per_node: int = Field(gt=0)
    """Network ports of a node."""
    nic_bytes_per_s: LinkBytesPerS = Field(gt=0)
    """One direction, per NIC."""
    latency_s: Seconds = Field(default=5e-6, ge=0)
    """Seconds of an empty message between two nodes."""
    topology: Literal["fat-tree", "rail-optimised", "dragonfly", "torus", "star", "mesh", "wan"] = "fat-tree"
    """How switches join the ports."""
    oversubscription: float = Field(default=1.0, ge=1.0)
    """Ports below a leaf switch over its links upwards; 1 is none."""
    fabric: Fabric | None = None
    """Explicit switches and paths, on which collectives of all groups meet; absent: rates and `oversubscription` alone
    describe the network."""
    in_network_reduction: bool = False
    """Whether switches add up what they forward (SHARP)."""
    family: str = "infiniband"
    """Family of links, whose coefficients hold: infiniband, roce, ethernet, efa, slingshot …"""


class Storage(Spec):
    """Drives of a node, all together; what they sustain in large transfers."""

    bytes: Bytes = Field(gt=0)
    """Capacity."""
    read_bytes_per_s: LinkBytesPerS = Field(gt=0)
    """Sustained rate of reads."""
    write_bytes_per_s: LinkBytesPerS = Field(gt=0)
    """Sustained rate of writes."""


class CxlMemory(Spec):
    """Memory cards on CXL of a node."""

    cards: Count = 1
    """Memory cards of a node."""
    bytes: Bytes = Field(gt=0)
    """Capacity of one card."""
    bytes_per_s: LinkBytesPerS = Field(gt=0)
    """Rate of one card in one direction."""


class ClusterRef(Spec):
    """What a scenario writes under `cluster:`; `catalog.resolve_cluster` turns it into a `ClusterSpec`."""

    device: Annotated[str | DeviceSpec, BeforeValidator(name_of_digits)]
    """Catalogue id (`windtunnel devices`), a profile of `windtunnel calibrate`, or a data sheet of one's own."""
    nodes: Count = 1
    """Nodes of the cluster."""
    devices_per_node: Count = 8
    """Devices of a node."""
    scale_up: str | LinkSpec | None = None
    """Network between the devices of a node: a link's catalogue id or its own figures; absent: that of the device's
    usual node."""
    scale_out: str | ScaleOut | None = None
    """Network between nodes: `8 x infiniband-ndr`, or its own figures; absent: that of the device's usual node."""
    scale_up_domain: Count | None = None
    """Devices that share one scale-up network when it is larger than a node (72 on NVL72)."""
    host_memory_bytes: Bytes | None = None
    """Memory of a node's host."""
    host_memory_bytes_per_s: MemoryBytesPerS | None = Field(default=None, gt=0)
    """Sustained rate of a node's host memory, reads and writes together."""
    host_cores: Count | None = None
    """Cores of a node that run optimizer steps on the host."""
    devices_per_host_link: Count | None = None
    """Devices whose copies share one link to the host (behind a PCIe switch)."""
    storage: Storage | None = None
    """Drives of a node, for offloading and checkpoints."""
    cxl: CxlMemory | None = None
    """Memory behind CXL cards of a node."""
    power_cap_w: float | None = Field(default=None, gt=0)
    """Watts that one device may draw; its clock follows."""
    clock_share: float | None = Field(default=None, ge=0.3, le=1)
    """A lock on the devices' clock, of the one that they run at otherwise; memory and links keep theirs. Serving."""
    memory_bytes_per_s: MemoryBytesPerS | None = Field(default=None, gt=0)
    """Measured or stated rate of the device's memory, in place of the data sheet's."""
    memory_bytes: MemoryBytes | None = Field(default=None, gt=0)
    """Memory of a device, in place of the data sheet's."""
    price_per_device_hour: float | None = Field(default=None, ge=0)
    """US dollars that one device costs an hour."""


class MixedClusterRef(Spec):
    """`cluster:` of groups that differ in device or network, joined by a network between them."""

    groups: tuple[ClusterRef | str, ...]
    """Each as a cluster of its own: a mapping, or the name of a catalogue cluster."""
    between: str | ScaleOut | None = None
    """The network that joins the groups, with ports of its own: a mapping, or `2 x ethernet-25g` for the ports of a
    node (a link's name alone is one port). Absent: the groups' own scale-out ports; the slowest group sets the pace."""

    @field_validator("groups")
    @classmethod
    def _several(cls, groups: tuple[ClusterRef | str, ...]) -> tuple[ClusterRef | str, ...]:
        if len(groups) < 2:
            raise ValueError("must be two groups or more")
        return groups


class ClusterSpec(Spec):
    """A cluster with everything looked up. `assumed` lists what the catalogue filled in."""

    name: str
    device: DeviceSpec
    nodes: int = Field(gt=0)
    devices_per_node: int = Field(gt=0)
    scale_up: LinkSpec
    scale_out: ScaleOut
    scale_up_domain: int = Field(gt=0)
    host_memory_bytes: Bytes = 1e12
    host_memory_bytes_per_s: MemoryBytesPerS | None = None
    """None: not known. Then copies are not held up by it, and updates on the host take the rate of `training.tiers`."""
    host_cores: int | None = None
    devices_per_host_link: int = Field(default=1, gt=0)
    storage: Storage | None = None
    cxl: CxlMemory | None = None
    power_cap_w: float | None = None
    clock_share: float | None = None
    price_per_device_hour: float | None = None
    assumed: tuple[tuple[str, str, str], ...] = ()
    """(field, value, why)."""

    @property
    def num_devices(self) -> int:
        """Devices in all."""
        return self.nodes * self.devices_per_node

    @property
    def fabric_problems(self) -> list[Problem]:
        """What of `scale_out.fabric` does not fit the cluster."""
        fabric, field = self.scale_out.fabric, "cluster.scale_out.fabric"
        if fabric is None:
            return []
        out: list[Problem] = []
        domains = max(self.num_devices // self.scale_up_domain, 1)
        if fabric.shape and self.scale_out.topology not in ("torus", "mesh"):
            rule = f"is of a torus or mesh, and scale_out.topology is {self.scale_out.topology}"
            out.append(Problem(f"{field}.shape", rule, list(fabric.shape)))
        elif fabric.shape and prod(fabric.shape) != domains:
            rule = f"must multiply to the {domains} scale-up domains"
            out.append(Problem(f"{field}.shape", rule, list(fabric.shape)))
        for i, slow in enumerate(fabric.slow_ports):
            if slow.node >= self.nodes:
                out.append(Problem(f"{field}.slow_ports[{i}].node", f"must be below the {self.nodes} nodes", slow.node))
            if slow.port >= self.scale_out.nics_per_node:
                rule = f"must be below nics_per_node {self.scale_out.nics_per_node}"
                out.append(Problem(f"{field}.slow_ports[{i}].port", rule, slow.port))
        for i, link in enumerate(fabric.slow_links):
            if link.spine >= fabric.spines:
                rule = f"must be below the {fabric.spines} spines"
                out.append(Problem(f"{field}.slow_links[{i}].spine", rule, link.spine))
        return out

    @property
    def nic_bytes_per_s_per_device(self) -> float:
        """Fair share of the node's NICs, one direction."""
        return self.scale_out.nics_per_node * self.scale_out.nic_bytes_per_s / self.devices_per_node


class MixedCluster(ClusterSpec):
    """Groups of unlike devices or networks. The fields of a plain cluster are those of the first group."""

    groups: tuple[ClusterSpec, ...]
    between: ScaleOut | None = None
    """What one node of any group can send to the other groups, on ports of its own; None: its scale-out ports."""

    @property
    def num_devices(self) -> int:
        """Devices of all groups."""
        return sum(group.num_devices for group in self.groups)


def groups_of(cluster: ClusterSpec) -> tuple[ClusterSpec, ...]:
    """The groups of a mixed cluster; any other cluster is its own only group."""
    return cluster.groups if isinstance(cluster, MixedCluster) else (cluster,)


def outward(cluster: MixedCluster) -> tuple[ClusterSpec, ...]:
    """Each group as the others see it: `scale_out` is the network between the groups."""
    if cluster.between is None:
        return cluster.groups
    return tuple(group.model_copy(update={"scale_out": cluster.between}) for group in cluster.groups)


def refuse_groups(cluster: ClusterSpec, what: str) -> None:
    """Say that something does not read groups of unlike devices.

    Raises:
        BadInput: the cluster has groups.
    """
    if isinstance(cluster, MixedCluster):
        rule = f"{what} does not read groups of unlike devices yet; `train` and `plan` do"
        raise BadInput(Problem("cluster.groups", rule))
