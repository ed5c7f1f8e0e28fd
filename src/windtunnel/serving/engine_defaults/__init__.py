"""Serving engines: defaults by release and device, and one instance with everything decided. One file an engine."""

from windtunnel.serving.engine_defaults.base import ENGINES, Defaults, Engine, version_of
from windtunnel.serving.engine_defaults.legal import legal_limits
from windtunnel.serving.engine_defaults.resolve_instance import Assumed, Instance, resolve

__all__ = ["ENGINES", "Assumed", "Defaults", "Engine", "Instance", "legal_limits", "resolve", "version_of"]
