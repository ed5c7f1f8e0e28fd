"""Where keys and values go when they leave the device: `kv.tiers` of a pool."""

from __future__ import annotations

from pydantic import Field

from windtunnel.specs.base import Bytes, BytesPerS, Seconds, Spec


class KvTier(Spec):
    """One level below the device's memory. Levels are given from the fastest on."""

    kind: str
    """host, ssd or remote: a file of `serving/tiers/`."""
    capacity_bytes: Bytes = Field(gt=0)
    """Capacity for one instance, or for all instances together where the kind is shared (remote)."""
    bytes_per_s: BytesPerS | None = Field(default=None, gt=0)
    """Rate at which one instance reads; absent: what the kind takes from the cluster."""
    latency_s: Seconds | None = None
    """Seconds before the first byte of a load; absent: the kind's."""


class SimilarSpec(Spec):
    """Approximate reuse: prompts like an earlier one take its keys and values over, and compute some of them again."""

    share: float = Field(ge=0, le=1)
    """Share of the requests that resemble an earlier one."""
    matched: float = Field(ge=0, le=1)
    """Share of such a prompt's tokens whose keys and values are taken over."""
    recomputed: float = Field(default=0.1, ge=0, le=1)
    """Share of those that are computed again, because they deviate most."""
    capacity_bytes: Bytes = Field(default=64e9, gt=0)
    """Host memory of an instance for prompts that others may resemble; the oldest go first."""
