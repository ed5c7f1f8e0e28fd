"""Traffic: when requests come and how long they are, drawn or replayed."""

from __future__ import annotations

from windtunnel.serving.traffic.alone import Traffic
from windtunnel.serving.traffic.generate import generate

__all__ = ["Traffic", "generate"]
