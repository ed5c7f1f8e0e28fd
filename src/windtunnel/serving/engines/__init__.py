"""Serving engines: defaults by release and device, and one instance with everything decided. One file an engine."""

from windtunnel.serving.engines.base import ENGINES, Defaults, Engine, version_of
from windtunnel.serving.engines.resolve_instance import Assumed, Instance, resolve

__all__ = ["ENGINES", "Assumed", "Defaults", "Engine", "Instance", "resolve", "version_of"]
