"""Compressors of gradients and parameter differences; one file each, found by id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from windtunnel.learning.compressors.base import Compressor
from windtunnel.registry import Registry
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class CompressorKind:
    """A compressor that a scenario can name."""

    id: str
    summary: str
    build: Callable[[dict[str, Any]], Compressor]
    knobs: dict[str, Knob] = field(default_factory=dict)
    source: str = ""


COMPRESSORS: Registry[CompressorKind] = Registry(
    "compressors", package="windtunnel.learning.compressors", noun="compressor"
)
