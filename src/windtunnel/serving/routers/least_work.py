"""The instance with fewest prompt and answer tokens of requests that have not ended."""

from __future__ import annotations

from windtunnel.serving.event_loop.instance_limits import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry

ROUTERS.add(
    "least_work",
    RouterEntry("Fewest tokens to do", "Harchol-Balter 2013, chapter 24: least work left", Router.LEAST_TOKENS),
    aliases=("least_tokens",),
)
