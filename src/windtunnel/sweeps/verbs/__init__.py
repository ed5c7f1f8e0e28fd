"""What a sweep can compute; one verb a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from windtunnel.registry import Registry
from windtunnel.scenarios.source import FieldsInFolder
from windtunnel.sweeps.cells import with_settings


@dataclass(slots=True)
class Shared:
    """What the cells of one process share: prices and tables that change no result."""

    entries: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """One cell as a verb sees it."""

    source: FieldsInFolder
    """The scenario."""
    draw: int | None
    seed: int

    def with_settings(self, settings: dict[str, Any]) -> FieldsInFolder:
        """The scenario with dotted fields set."""
        return FieldsInFolder(with_settings(self.source, settings), self.source.folder)


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb that sweeps."""

    id: str
    section: str
    """Section of a scenario that says that this verb is meant, where no verb is named."""
    answer: Callable[[Question, Shared], dict[str, Any]]
    """Question → result as `--json` prints it. Raises `BadInput` and `Infeasible` as the verb does."""
    cell_cpu_s: float = 0.1
    """CPU seconds of a typical cell, warm; what an estimate takes before the first cell is done."""
    together: int = 1
    """Neighbouring cells at most that one process computes one after the other, because they share prices."""
    draws: str = ""
    """What a draw varies."""


VERBS: Registry[Verb] = Registry("sweep_verbs", package="windtunnel.sweeps.verbs", noun="verb of a sweep")
