"""Traffic: when requests come and how long they are, drawn or replayed."""

from __future__ import annotations

from windtunnel.serving.traffic.generate import generate
from windtunnel.serving.traffic.single_source import Traffic

__all__ = ["Traffic", "generate"]
