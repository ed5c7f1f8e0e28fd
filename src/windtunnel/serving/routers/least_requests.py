"""The instance with fewest requests in its batch and queue."""

from __future__ import annotations

from windtunnel.serving.event_loop.instance_limits import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry

ROUTERS.add(
    "least_requests", RouterEntry("Fewest requests", "Winston 1977: join the shortest queue", Router.LEAST_REQUESTS)
)
