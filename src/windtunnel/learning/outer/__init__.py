"""Outer optimizers; one file each, found by id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from windtunnel.learning.outer.base import OuterOptimizer
from windtunnel.registry import Registry
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class OuterKind:
    """An outer optimizer that a scenario can name."""

    id: str
    summary: str
    build: Callable[[dict[str, Any]], OuterOptimizer]
    knobs: dict[str, Knob] = field(default_factory=dict)
    source: str = ""


OUTER: Registry[OuterKind] = Registry("outer_optimizers", package="windtunnel.learning.outer", noun="outer optimizer")
