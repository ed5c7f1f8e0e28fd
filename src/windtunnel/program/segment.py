"""Segments: the device launches of one block on one rank, in launch order, as passes read and rewrite them.

A segment has a few dozen launches; the arrays that the engine runs are made from them once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter

COMPUTE, COMM, ASIDE = "compute", "comm", "aside"
"""Names of streams: kernels, collectives that the block waits for, and exchanges hidden by another micro-batch."""


@dataclass(slots=True, kw_only=True)
class Launch:
    """One kernel or collective of a segment. Launches of one stream run in order."""

    name: str
    """Operator that it belongs to."""
    tag: str
    """Class of time: gemm, attention, memory_bound, scan, recompute …, tp, cp, ep."""
    stream: str
    """`COMPUTE`, `COMM`, `ASIDE`, or a stream of a technique."""
    alone_s: float
    """Seconds when nothing else runs on the device."""
    after: list[int] = field(default_factory=list)
    """Indices of launches in the same segment that must have ended before it starts."""
    sm: float = 0.0
    """Share of the device's SMs that it keeps busy while it runs (0 to 1)."""
    hbm_bytes: float = 0.0
    """Bytes read from and written to device memory."""
    up_bytes: float = 0.0
    """Bytes that a device sends over its scale-up link."""
    out_bytes: float = 0.0
    """Bytes that a device sends over the scale-out network."""
    flop: float = 0.0
    """Floating-point operations of this rank."""
    kernels: float = 1.0
    """Kernels that the host launches for it."""
    module: str = ""
    """Module of the block that the operator belongs to."""
    phase: str = "F"
    """F, D (data gradient), W (weight gradient), R (recomputed forward)."""
    beside: str = ""
    """Collectives: name of the operator that it runs next to, whose input it brings or whose output it takes."""
    splittable: bool = False
    """GEMMs that an overlap pass may cut into chunks."""
    piece_s: Callable[[int], float] | None = None
    """GEMMs: number of pieces → seconds alone of one of them, tiles and floor included; set when the GEMM is priced."""
    ranks: float = 1.0
    """Collectives: number of ranks in the group."""
    operation: str = ""
    """Collectives: all_gather, reduce_scatter, all_reduce …"""
    kind: str = ""
    """Kind of kernel, independent of the class of time: gemm, grouped gemm, attention, memory_bound, softmax, scan or
    collective."""
    number_format: str = ""
    """Matrix products: number format of the operands."""
    fractions: tuple[str, ...] = ()
    """Matrix products: names of the coefficients that the peak rate was multiplied by."""
    shape: tuple[float, ...] = ()
    """Matrix products: (m, n, k, groups); attention: (pairs, heads, d_qk, d_v)."""
    algorithm: str = ""
    """Collectives: algorithm and protocol that the library chose."""
    latency_s: float = 0.0
    """Collectives: part of `alone_s` that does not depend on the size."""

    def following(self, after: list[int]) -> Launch:
        """The same launch with other dependencies.

        Passes copy hundreds of thousands of launches, for which `dataclasses.replace` is too slow.
        """
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
    """Block kind."""
    direction: str
    """F, B or W."""
    launches: list[Launch]

    def append(self, launch: Launch) -> int:
        """Add a launch and return its index."""
        self.launches.append(launch)
        return len(self.launches) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTime:
    """Simulated time and work of a segment on one rank."""

    device_s: float
    """Seconds on the device, with a host that is never late."""
    host_s: float
    """Seconds in which the host issues its launches."""
    total_s: float
    """Seconds of the segment, waits for the host included."""
    busy_s: dict[str, float]
    """Class of time → seconds, a partition of `total_s`; idle time of kernels counts to the launch they wait for."""
    sm_s: float
    """Seconds of all SMs busy: sum over launches of the share of SMs times seconds alone."""
    hbm_bytes: float
    """Bytes read from and written to device memory."""
    up_bytes: float
    """Bytes sent over the scale-up link."""
    out_bytes: float
    """Bytes sent over the scale-out network."""
    flop: float
    sync_s: float = 0.0
    """Seconds of device time lost to a host read."""
    exposed_s: tuple[float, ...] = ()
    """Part of `device_s` of each launch: of kernels while they run, of transfers while a kernel waits for them."""
