"""Published laws of loss over size, each with its range; a law is named, and never reached from a small task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from windtunnel.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class LawCase:
    """What a law is asked for."""

    parameters: float
    workers: int
    algorithm: str
    """Id."""
    period: int | None
    """Local steps of a round; None where the algorithm has no rounds."""


class Law(Protocol):
    """A published fit."""

    @property
    def id(self) -> str:
        """Name in a scenario."""

    @property
    def source(self) -> str:
        """Paper and table."""

    def outside(self, case: LawCase) -> str:
        """Why the law says nothing of a case, in one line; empty where it does."""

    def loss(self, case: LawCase) -> float:
        """Loss in nats a token."""


LAWS: Registry[Law] = Registry("learning_laws", package="windtunnel.learning.laws", noun="law")
