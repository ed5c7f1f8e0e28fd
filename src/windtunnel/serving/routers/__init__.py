"""Which instance a request goes to: one file a rule, found by the registry and by entry points `windtunnel.routers`."""

from windtunnel.serving.routers.base import ROUTERS, RouterEntry

__all__ = ["ROUTERS", "RouterEntry"]
