"""The engine: programs in, timelines and memory curves out. Importing it does not import Numba."""

from __future__ import annotations

from windtunnel.engine.flows import FlowTimes, simulate_flows
from windtunnel.engine.memory import MemoryCurve, PoolCurve, memory_curve
from windtunnel.engine.timeline import ProgramError, simulate

__all__ = ["FlowTimes", "MemoryCurve", "PoolCurve", "ProgramError", "memory_curve", "simulate", "simulate_flows"]
