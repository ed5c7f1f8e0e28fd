"""The engine: programs in, timelines and memory curves out. Importing it does not import Numba."""

from __future__ import annotations

from windtunnel.engine.allocator import reserved_bytes
from windtunnel.engine.flows import FlowTimes, simulate_flows
from windtunnel.engine.lowering import Phase, SegmentSummary, reduce_segment
from windtunnel.engine.memory import MemoryCurve, PoolCurve, memory_curve
from windtunnel.engine.symmetry import equitable_partition, quotient_resources
from windtunnel.engine.timeline import ProgramError, bound, simulate

__all__ = [
    "FlowTimes",
    "MemoryCurve",
    "Phase",
    "PoolCurve",
    "ProgramError",
    "SegmentSummary",
    "bound",
    "equitable_partition",
    "memory_curve",
    "quotient_resources",
    "reduce_segment",
    "reserved_bytes",
    "simulate",
    "simulate_flows",
]
