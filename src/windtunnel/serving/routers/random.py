"""Any instance, evenly."""

from __future__ import annotations

from windtunnel.serving.event_loop.instance_limits import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry

ROUTERS.add("random", RouterEntry("At random", "Mitzenmacher 2001, section 1", Router.RANDOM))
