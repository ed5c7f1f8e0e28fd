"""Two instances at random; the one with fewer requests."""

from __future__ import annotations

from windtunnel.serving.event_loop.instance_limits import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry

ROUTERS.add(
    "power_of_two", RouterEntry("The better of two", "Mitzenmacher 2001: the power of two choices", Router.POWER_OF_TWO)
)
