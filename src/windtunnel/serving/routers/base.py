"""A router: a rule that the jitted loop has, or a class that the plain twin runs."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.registry import Registry
from windtunnel.serving.limits import Router as Rule
from windtunnel.serving.reference import Router


@dataclass(frozen=True, slots=True)
class RouterEntry:
    """What a file of this package registers."""

    title: str
    source: str
    rule: Rule | None
    """Of the jitted loop; None: only the twin has it."""
    twin: type[Router] = Router


ROUTERS: Registry[RouterEntry] = Registry("routers", package="windtunnel.serving.routers", noun="router")
