"""Where the ranks of a communication group sit: how many share a scale-up domain, how many domains they span.

A *domain* is the set of devices behind one scale-up network (an NVSwitch node, an NVL72 rack, a TPU slice). Everything
a collective needs to know about its place is a handful of integers, so a planner can screen millions of plans by
passing arrays instead of scalars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.specs.cluster import ClusterSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlacement:
    """Place of one group, or of many (every field broadcasts against the others).

    Shapes: scalars or arrays of one common shape.
    """

    size: Floats
    """Ranks in the group, n."""
    ranks_per_domain: Floats
    """Most ranks of the group inside one scale-up domain, m."""
    num_domains: Floats
    """Domains the group spans, k (k = 1: the group never leaves the scale-up network)."""
    groups_per_domain: Floats
    """Groups of the same kind that communicate at the same time and have ranks in one domain (they share its NICs)."""
    stride: Floats
    """Distance between neighbouring ranks (the smallest one for a product of axes)."""
    torus_axes: Floats
    """Torus axes the group extends over, half for an open line (1 on switched networks)."""
    torus_hops: Floats
    """Links between the two farthest ranks of the group on the torus (0 on switched networks)."""

    @property
    def crosses_domain(self) -> Mask:
        """True where some traffic leaves the scale-up network."""
        return np.asarray(self.num_domains > 1)


def _f(x: Any) -> Floats:
    return np.asarray(x, dtype=np.float64)


def placement(
    size: npt.ArrayLike,
    stride: npt.ArrayLike = 1,
    domain: npt.ArrayLike = 8,
    *,
    active_per_domain: npt.ArrayLike | None = None,
    torus_axes: npt.ArrayLike = 1,
    torus_hops: npt.ArrayLike = 0,
) -> GroupPlacement:
    """Placement of groups {0, stride, 2·stride, …} with `size` ranks, over domains of `domain` devices.

    All arguments broadcast. Exact for the group that starts at a domain boundary, hence for every group when
    size·stride and domain divide one another; `Mesh` counts the other cases.

    Args:
        size: Ranks in the group.
        stride: Distance between neighbouring ranks in devices.
        domain: Devices behind one scale-up network.
        active_per_domain: Devices of one domain that run the job (all of them when absent).
        torus_axes: Torus axes that the group covers.
        torus_hops: Longest path inside the group on the torus.
    """
    n, s, d = _f(size), _f(stride), _f(domain)
    span = np.minimum(np.ceil(d / np.maximum(s, 1.0)), n)
    inside = np.where(s >= d, 1.0, span)
    # First to last rank; strides above the domain put every rank in its own domain.
    touched = np.floor((n - 1.0) * s / d) + 1.0
    domains = np.where(s >= d, n, np.minimum(touched, n))
    inside = np.maximum(inside, np.ceil(n / domains))
    active = d if active_per_domain is None else _f(active_per_domain)
    groups = np.maximum(active / inside, 1.0)
    return GroupPlacement(
        size=n,
        ranks_per_domain=inside,
        num_domains=domains,
        groups_per_domain=groups,
        stride=s,
        torus_axes=_f(torus_axes),
        torus_hops=_f(torus_hops),
    )


def _divides(a: int, b: int) -> bool:
    return a % b == 0 or b % a == 0


class Mesh:
    """Mesh axes laid over the devices of a cluster, fastest-varying axis first.

    Args:
        axes: Size of each axis; axes that are absent from `order` are refused, absent sizes count 1.
        order: Axis names, the closest together first.
        cluster: Where the mesh lives. Global rank r is device r.

    Raises:
        ValueError: an axis is unknown or appears twice.
    """

    def __init__(self, axes: Mapping[str, int], order: Sequence[str], cluster: ClusterSpec) -> None:
        if len(set(order)) != len(order):
            raise ValueError(f"order = {tuple(order)}: an axis appears twice")
        unknown = sorted(set(axes) - set(order))
        if unknown:
            raise ValueError(f"axes {', '.join(unknown)}: not in order {', '.join(order)}")
        self.order = tuple(order)
        self.sizes = {name: int(axes.get(name, 1)) for name in order}
        self.strides: dict[str, int] = {}
        stride = 1
        for name in order:
            self.strides[name] = stride
            stride *= self.sizes[name]
        self.num_ranks = stride
        self.cluster = cluster
        self.domain = int(cluster.scale_up_domain)
        torus = cluster.scale_up.topology == "torus"
        slice_size = min(self.num_ranks, self.domain)
        self._torus = torus_shape(slice_size, cluster.scale_up.torus_axes) if torus else ()
        self._wrap, self._wrap_all = cluster.scale_up.torus_wrap, cluster.scale_up.torus_axes > 2
        self._cache: dict[tuple[str, ...], GroupPlacement] = {}

    def ranks(self, *axes: str, member: int = 0) -> Ints:
        """Global ranks of the `member`-th group over the given axes, fastest axis first. Shape (size,)."""
        rest = [a for a in self.order if a not in axes]
        base, left = 0, member
        for name in rest:
            base += (left % self.sizes[name]) * self.strides[name]
            left //= self.sizes[name]
        out = np.zeros(1, dtype=np.int64)
        for name in self.order:
            if name in axes:
                steps = np.arange(self.sizes[name], dtype=np.int64) * self.strides[name]
                out = (steps[:, None] + out[None, :]).ravel()
        return out + base

    def placement(self, *axes: str) -> GroupPlacement:
        """Placement of the groups over one axis or a product of axes (all groups of the kind alike, or the worst one).

        Raises:
            ValueError: an axis is not in the mesh.
        """
        missing = [a for a in axes if a not in self.sizes]
        if missing:
            raise ValueError(f"axis {missing[0]}: the mesh has {', '.join(self.order)}")
        used = tuple(a for a in self.order if a in axes and self.sizes[a] > 1)
        if used not in self._cache:
            self._cache[used] = self._place(used)
        return self._cache[used]

    def strided(self, size: int, stride: int) -> GroupPlacement:
        """Placement of groups {0, stride, …} of `size` ranks that are no axis of the mesh (shard groups, experts)."""
        axes, hops = self._extent(np.arange(size, dtype=np.int64) * stride)
        return placement(size, stride, self.domain, torus_axes=axes, torus_hops=hops)

    def _place(self, axes: tuple[str, ...]) -> GroupPlacement:
        size = prod(self.sizes[a] for a in axes)
        stride = min((self.strides[a] for a in axes), default=1)
        regular = all(
            _divides(self.strides[a], self.domain) and _divides(self.strides[a] * self.sizes[a], self.domain)
            for a in self.order
        )
        if regular:
            inside = prod(min(max(self.domain // self.strides[a], 1), self.sizes[a]) for a in axes)
            domains = size // inside
        else:
            inside, domains = self._count(axes)
        active = min(self.domain, self.num_ranks)
        torus_axes, hops = self._extent(self.ranks(*axes))
        return GroupPlacement(
            size=_f(size),
            ranks_per_domain=_f(inside),
            num_domains=_f(domains),
            groups_per_domain=_f(max(active / inside, 1.0)),
            stride=_f(stride),
            torus_axes=_f(torus_axes),
            torus_hops=_f(hops),
        )

    def _count(self, axes: tuple[str, ...]) -> tuple[int, int]:
        """(most ranks in one domain, most domains) over all groups of the kind, by counting."""
        others = [a for a in self.order if a not in axes]
        bases = np.zeros(1, dtype=np.int64)
        for name in others:
            bases = (np.arange(self.sizes[name], dtype=np.int64)[:, None] * self.strides[name] + bases[None, :]).ravel()
        members = self.ranks(*axes)
        # Chunked: a group of g ranks in b places is at most a few million entries at a time.
        chunk = max(1, 4_000_000 // max(len(members), 1))
        inside = domains = 1
        for start in range(0, len(bases), chunk):
            where = np.sort((bases[start : start + chunk, None] + members[None, :]) // self.domain, axis=1)
            new = np.ones(where.shape, dtype=bool)
            new[:, 1:] = where[:, 1:] != where[:, :-1]
            domains = max(domains, int(new.sum(axis=1).max()))
            first = np.flatnonzero(new.ravel())
            inside = max(inside, int(np.diff(np.append(first, new.size)).max()))
        return inside, domains

    def _extent(self, members: Ints) -> tuple[float, int]:
        """(torus axes that a group covers, hops between its farthest ranks).

        An axis counts in full where the group closes its ring, half where it is a line or a pair (one link, not two). A
        ring closes where the group spans the whole side and the slice has the wrap-around links.
        """
        if not self._torus:
            return 1.0, 0
        used, hops = 0.0, 0
        wraps = [side > 2 and side % self._wrap == 0 for side in self._torus]
        if self._wrap_all:
            wraps = [all(wraps)] * len(wraps)
        left = members[members < self.domain]
        for side, wrapped in zip(self._torus, wraps, strict=True):
            extent = len(np.unique(left % side))
            left = left // side
            if extent > 1:
                closed = extent == side and wrapped
                used += 1.0 if closed else 0.5
                hops += extent // 2 if closed else extent - 1
        return max(used, 0.5), hops


def torus_shape(num_devices: int, axes: int) -> tuple[int, ...]:
    """Sides of the most cube-like torus of that many devices, smallest side first.

    >>> torus_shape(256, 2)
    (16, 16)
    >>> torus_shape(512, 3)
    (8, 8, 8)
    """
    sides = [1] * max(axes, 1)
    left, factor, factors = num_devices, 2, []
    while left > 1:
        while left % factor == 0:
            factors.append(factor)
            left //= factor
        factor += 1 if factor * factor <= left else max(left - factor, 1)
    for f in sorted(factors, reverse=True):
        sides[sides.index(min(sides))] *= f
    return tuple(sorted(sides))
