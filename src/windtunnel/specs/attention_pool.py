"""Devices that keep an instance's cache and compute its decode attention, next to those that hold the weights."""

from __future__ import annotations

from pydantic import Field

from windtunnel.specs.base import BytesPerS, Count, Seconds, Spec


class AttentionPoolSpec(Spec):
    """`attention_pool:` of a pool (technique `lamina`): memory for the cache, and its rate, over a network."""

    device: str
    """Catalogue id."""
    count: Count = 1
    """Devices of one instance."""
    nic_bytes_per_s: BytesPerS
    """Network rate of one device, on either side."""
    latency_s: Seconds = 20e-6
    """Latency of one message."""
    memory_fraction: float = Field(default=0.9, gt=0, le=1)
    """Share of device memory that holds keys and values."""
