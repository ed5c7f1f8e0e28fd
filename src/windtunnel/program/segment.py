"""A segment: the device launches of one block on one rank, in launch order, as passes see and rewrite them.

Launches are few (tens); the arrays that the engine runs are made from them once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter

COMPUTE, COMM, ASIDE = "compute", "comm", "aside"
"""Streams: kernels, collectives that the block waits for, and exchanges that another micro-batch's work hides."""


@dataclass(slots=True, kw_only=True)
class Launch:
    """One kernel or collective of a segment.

    `after` lists indices of launches in the same segment that must have ended; launches of one stream also run in
    order.
    """

    name: str
    tag: str
    """Class of time: gemm, attention, memory_bound, scan, recompute …, tp, cp, ep."""
    stream: str
    alone_s: float
    after: list[int] = field(default_factory=list)
    sm: float = 0.0
    """Share of the device's SMs that it keeps busy while it runs (0 to 1)."""
    hbm_bytes: float = 0.0
    up_bytes: float = 0.0
    out_bytes: float = 0.0
    flop: float = 0.0
    kernels: float = 1.0
    module: str = ""
    phase: str = "F"
    """F, D (data gradient), W (weight gradient), R (recomputed forward)."""
    beside: str = ""
    """Collectives: the operator whose GEMM it feeds or drains."""
    splittable: bool = False
    """GEMMs that an overlap pass may cut into chunks."""
    piece_s: Callable[[int], float] | None = None
    """GEMMs: alone seconds of one of `n` pieces of equal rows, tiles and floor included (set when priced)."""
    ranks: float = 1.0
    """Collectives: ranks of the group."""
    operation: str = ""
    """Collectives: all_gather, reduce_scatter, all_reduce …"""
    kind: str = ""
    """What runs, whatever class of time it counts to: gemm, grouped gemm, attention, memory_bound, softmax, scan,
    collective."""
    number_format: str = ""
    """Products: format of the operands."""
    fractions: tuple[str, ...] = ()
    """Products: coefficients that the peak was multiplied by."""
    shape: tuple[float, ...] = ()
    """Products: (m, n, k, groups); attention: (pairs, heads, d_qk, d_v)."""
    algorithm: str = ""
    """Collectives: algorithm and protocol that were taken."""
    latency_s: float = 0.0
    """Collectives: part of `alone_s` that does not depend on the size."""

    def following(self, after: list[int]) -> Launch:
        """The same launch after others. Passes make hundreds of thousands of them; `replace` looks at each field."""
        return Launch(
            name=self.name,
            tag=self.tag,
            stream=self.stream,
            alone_s=self.alone_s,
            after=after,
            **dict(zip(_REST, _values_of_rest(self), strict=True)),
        )


_REST = tuple(f.name for f in fields(Launch)[5:])
"""Names of the fields after `after`."""
_values_of_rest = attrgetter(*_REST)


@dataclass(slots=True)
class Segment:
    """Launches of one block kind and direction."""

    name: str
    direction: str
    """F, B or W."""
    launches: list[Launch]

    def append(self, launch: Launch) -> int:
        """Add a launch and return its index."""
        self.launches.append(launch)
        return len(self.launches) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTime:
    """What a segment costs once simulated. Seconds and bytes of one rank."""

    device_s: float
    host_s: float
    total_s: float
    busy_s: dict[str, float]
    """Class of time → seconds; partitions `total_s` (idle compute time is blamed on what it waited for)."""
    sm_s: float
    hbm_bytes: float
    up_bytes: float
    out_bytes: float
    flop: float
    sync_s: float = 0.0
    exposed_s: tuple[float, ...] = ()
    """Launch by launch, its part of `device_s`: kernels while they run, transfers while a kernel waits for them."""
