"""A router: a rule that the jitted loop has, or a class that the reference loop runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windtunnel.registry import Registry
from windtunnel.serving.event_loop.instance_limits import Router as Rule
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.techniques.base import Knob


@dataclass(frozen=True, slots=True)
class RouterEntry:
    """What a file of this package registers."""

    title: str
    source: str
    rule: Rule | None
    """Rule of the jitted loop; None: only the twin has it."""
    twin: type[Router] = Router
    knobs: Mapping[str, Knob] = field(default_factory=dict)


ROUTERS: Registry[RouterEntry] = Registry("routers", package="windtunnel.serving.routers", noun="router")
