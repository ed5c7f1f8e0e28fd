"""Levels below the device for keys and values that were let go, and what loading them costs. One file a kind."""

from windtunnel.serving.tiers.kinds import TIERS, TierKind
from windtunnel.serving.tiers.memory import Memory
from windtunnel.serving.tiers.resolve import memory_of

__all__ = ["TIERS", "Memory", "TierKind", "memory_of"]
