"""Explicit networks: links with capacities and routes, for flow-level answers.

A topology knows its links (capacity in bytes/s, one direction each) and gives routes for arrays of (source,
destination) devices as a padded table of link ids, −1 where a route is shorter. All of it is array arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask


class Topology(Protocol):
    """What the flow solver needs."""

    @property
    def capacity(self) -> Floats:
        """Bytes/s of each link, shape (l,)."""
        ...

    @property
    def num_devices(self) -> int:
        """Devices that flows may start and end at."""
        ...

    def routes(self, src: Ints, dst: Ints) -> Ints:
        """Link ids of each flow, shape (flows, longest), padded with −1."""
        ...


def _pad(*columns: Ints) -> Ints:
    return np.stack(columns, axis=1).astype(np.int64)


def mixed(src: Ints, dst: Ints, seed: int) -> Ints:
    """Well-mixed non-negative number per flow (finaliser of splitmix64, Steele et al. 2014)."""
    x = (src.astype(np.uint64) << np.uint64(32)) + dst.astype(np.uint64) + np.uint64(seed) * np.uint64(0x9E3779B9)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class TwoLevel:
    """Domains of `per_domain` devices behind a non-blocking switch; `nics` ports per domain to a non-blocking core."""

    domains: int
    per_domain: int
    up_bytes_per_s: float
    nics: int
    nic_bytes_per_s: float

    @property
    def num_devices(self) -> int:
        """Devices in all domains."""
        return self.domains * self.per_domain

    @property
    def capacity(self) -> Floats:
        """Order: device out, device in, NIC out, NIC in."""
        d, c = self.num_devices, self.domains * self.nics
        return np.repeat(
            [self.up_bytes_per_s, self.up_bytes_per_s, self.nic_bytes_per_s, self.nic_bytes_per_s], [d, d, c, c]
        ).astype(np.float64)

    def nic_of(self, device: Ints) -> Ints:
        """The NIC next to a device (ids count over all domains)."""
        local = device % self.per_domain
        return (device // self.per_domain) * self.nics + local * self.nics // self.per_domain

    def routes(self, src: Ints, dst: Ints) -> Ints:
        """Through the switch of the domain, or NIC to NIC."""
        d, c = self.num_devices, self.domains * self.nics
        inside = src // self.per_domain == dst // self.per_domain
        first = np.where(inside, src, 2 * d + self.nic_of(src))
        second = np.where(inside, d + dst, 2 * d + c + self.nic_of(dst))
        return _pad(first, second)


@dataclass(frozen=True, slots=True, kw_only=True)
class FatTree:
    """`TwoLevel` whose NICs meet in leaf switches with uplinks to `spines` spine switches.

    `rails`: NIC i of every domain of a pod goes to leaf i of the pod (rail-optimised), else a leaf takes all NICs of
    `leaf_domains` domains. `spray`: a flow spreads over all uplinks; else it is hashed onto one (ECMP, `seed`).
    """

    base: TwoLevel
    leaf_domains: int
    oversubscription: float = 1.0
    spines: int = 4
    rails: bool = False
    spray: bool = True
    seed: int = 0

    @property
    def num_devices(self) -> int:
        """Devices of the base."""
        return self.base.num_devices

    @property
    def num_leaves(self) -> int:
        """Leaf switches."""
        pods = -(-self.base.domains // self.leaf_domains)
        return pods * (self.base.nics if self.rails else 1)

    def leaf_of(self, device: Ints) -> Ints:
        """Leaf switch of the NIC next to a device."""
        nic = self.base.nic_of(device)
        pod = nic // self.base.nics // self.leaf_domains
        return pod * self.base.nics + nic % self.base.nics if self.rails else pod

    @property
    def capacity(self) -> Floats:
        """The base's links, then (leaf, spine) up, then (leaf, spine) down."""
        ports = self.leaf_domains * (1 if self.rails else self.base.nics)
        each = ports * self.base.nic_bytes_per_s / self.oversubscription / self._ways
        return np.concatenate([self.base.capacity, np.full(2 * self.num_leaves * self._ways, each)])

    @property
    def _ways(self) -> int:
        return 1 if self.spray else self.spines

    def crosses(self, src: Ints, dst: Ints) -> Mask:
        """Whether a flow has to pass a spine."""
        apart = src // self.base.per_domain != dst // self.base.per_domain
        return np.asarray(apart & (self.leaf_of(src) != self.leaf_of(dst)))

    def routes(self, src: Ints, dst: Ints) -> Ints:
        """The base's two links, plus up and down where the leaves differ."""
        way = np.zeros_like(src) if self.spray else mixed(src, dst, self.seed) % self.spines
        return self.through(src, dst, way)

    def through(self, src: Ints, dst: Ints, way: Ints) -> Ints:
        """Routes over chosen spines, `way` of shape (flows,); all 0 where packets are sprayed."""
        route = self.base.routes(src, dst)
        first = len(self.base.capacity)
        a, b, crosses = self.leaf_of(src), self.leaf_of(dst), self.crosses(src, dst)
        up = np.where(crosses, first + a * self._ways + way, -1)
        down = np.where(crosses, first + (self.num_leaves + b) * self._ways + way, -1)
        return np.concatenate([route, _pad(up, down)], axis=1)


@dataclass(frozen=True, slots=True)
class Dragonfly:
    """Groups of routers, all-to-all inside a group, one global link between each pair of groups; minimal routes.

    Device d hangs on router d // hosts. The global link from group g to h leaves from router (h mod routers).
    Source: Kim et al., Technology-Driven, Highly-Scalable Dragonfly Topology, ISCA 2008.
    """

    groups: int
    routers: int
    hosts: int
    host_bytes_per_s: float
    local_bytes_per_s: float
    global_bytes_per_s: float

    @property
    def num_devices(self) -> int:
        """Devices on all routers."""
        return self.groups * self.routers * self.hosts

    @property
    def capacity(self) -> Floats:
        """Order: host out, host in, local (group, from, to), global (from, to)."""
        n = self.num_devices
        counts = [n, n, self.groups * self.routers**2, self.groups**2]
        rates = [self.host_bytes_per_s, self.host_bytes_per_s, self.local_bytes_per_s, self.global_bytes_per_s]
        return np.repeat(rates, counts).astype(np.float64)

    def routes(self, src: Ints, dst: Ints) -> Ints:
        """Host, local, global, local, host."""
        n, r = self.num_devices, self.routers
        local0, global0 = 2 * n, 2 * n + self.groups * r * r
        rs, rd = src // self.hosts, dst // self.hosts
        gs, gd = rs // r, rd // r
        far = gs != gd
        leave = np.where(far, gd % r, rd % r)
        enter = np.where(far, gs % r, rd % r)
        first = np.where(rs % r != leave, local0 + gs * r * r + (rs % r) * r + leave, -1)
        glob = np.where(far, global0 + gs * self.groups + gd, -1)
        last = np.where(far & (enter != rd % r), local0 + gd * r * r + enter * r + rd % r, -1)
        return _pad(src, n + dst, first, glob, last)


@dataclass(frozen=True, slots=True)
class TorusGraph:
    """Torus with one link each way per axis and neighbour; dimension-ordered shortest routes.

    `wraps`: whether the axes close to rings; a mesh is open at its ends.
    """

    shape: tuple[int, ...]
    link_bytes_per_s: float
    wraps: bool = True

    @property
    def num_devices(self) -> int:
        """Product of the sides."""
        return int(np.prod(self.shape))

    @property
    def capacity(self) -> Floats:
        """Order: axis, direction (+, −), device that sends."""
        return np.full(2 * len(self.shape) * self.num_devices, self.link_bytes_per_s)

    def routes(self, src: Ints, dst: Ints) -> Ints:
        """One axis after the other, the shorter way round (ties by parity of the sender)."""
        n = self.num_devices
        here = src.copy()
        columns: list[Ints] = []
        stride = 1
        for axis, side in enumerate(self.shape):
            x, goal = here // stride % side, dst // stride % side
            ahead = (goal - x) % side
            forward = (ahead < side - ahead) | ((2 * ahead == side) & (x % 2 == 0)) if self.wraps else goal > x
            left = np.where(forward, ahead, side - ahead) if self.wraps else np.abs(goal - x)
            for _ in range(side // 2 if self.wraps else side - 1):
                moving = left > 0
                columns.append(np.where(moving, (2 * axis + np.where(forward, 0, 1)) * n + here, -1))
                x = here // stride % side
                to = (x + np.where(forward, 1, -1)) % side
                here = np.where(moving, here + (to - x) * stride, here)
                left = left - moving
            stride *= side
        return _pad(*columns) if columns else np.full((len(src), 1), -1, dtype=np.int64)
