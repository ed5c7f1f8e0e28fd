"""Requests of one prefix or session go to one instance, whose cache has their blocks."""

from __future__ import annotations

from windtunnel.serving.event_loop.instance_limits import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry

ROUTERS.add(
    "prefix_aware",
    RouterEntry(
        "By shared prefix", "Karger et al. 1997: one home for one key; SGLang router, cache-aware", Router.STICKY
    ),
    aliases=("sticky",),
)
