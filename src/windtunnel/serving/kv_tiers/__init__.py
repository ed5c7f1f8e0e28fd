"""Levels below the device for keys and values that were let go, and what loading them costs. One file a kind."""

from windtunnel.serving.kv_tiers.kinds import TIERS, TierKind
from windtunnel.serving.kv_tiers.twin_memory import Memory

__all__ = ["TIERS", "Memory", "TierKind"]
