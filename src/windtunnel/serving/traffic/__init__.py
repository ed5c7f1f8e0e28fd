"""Traffic: when requests come and how long they are, drawn or replayed."""

from __future__ import annotations

from windtunnel.serving.traffic.generate import Traffic, generate

__all__ = ["Traffic", "generate"]
