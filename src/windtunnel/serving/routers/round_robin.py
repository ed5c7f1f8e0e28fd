"""Instances in turn."""

from __future__ import annotations

from windtunnel.serving.event_loop.instance_limits import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry

ROUTERS.add("round_robin", RouterEntry("In turn", "Shreedhar and Varghese 1996", Router.ROUND_ROBIN))
