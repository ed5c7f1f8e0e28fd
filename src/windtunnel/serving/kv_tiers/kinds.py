"""A kind of level: how fast an instance reads it when the scenario does not say, and who shares it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windtunnel.registry import Registry
from windtunnel.specs.cluster import ClusterSpec


@dataclass(frozen=True, slots=True)
class TierKind:
    """What a file of this package registers."""

    title: str
    source: str
    bytes_per_s: Callable[[ClusterSpec, int], float]
    """Cluster and devices that read at once → bytes per second of one instance."""
    latency_s: Callable[[ClusterSpec], float]
    shared: bool = False
    """Whether all instances read and write one store."""


TIERS: Registry[TierKind] = Registry("kv_tiers", package="windtunnel.serving.kv_tiers", noun="tier")
