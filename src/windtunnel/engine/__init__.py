"""The engine: programs in, timelines and memory curves out. Importing it does not import Numba."""

from __future__ import annotations

from windtunnel.engine.memory import MemoryCurve, PoolCurve, memory_curve
from windtunnel.engine.timeline import ProgramError, bound, simulate

__all__ = [
    "MemoryCurve",
    "PoolCurve",
    "ProgramError",
    "bound",
    "memory_curve",
    "simulate",
]
