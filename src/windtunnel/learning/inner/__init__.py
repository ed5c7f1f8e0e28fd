"""Inner optimizers; one file each, found by id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from windtunnel.learning.inner.base import InnerOptimizer
from windtunnel.registry import Registry
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class InnerKind:
    """An inner optimizer that a scenario can name."""

    id: str
    summary: str
    build: Callable[[dict[str, Any]], InnerOptimizer]
    knobs: dict[str, Knob] = field(default_factory=dict)
    lr: float = 1e-3
    """Peak learning rate where none is stated."""
    source: str = ""


INNER: Registry[InnerKind] = Registry("inner_optimizers", package="windtunnel.learning.inner", noun="inner optimizer")
