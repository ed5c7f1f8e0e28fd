"""Tasks that are small enough to train for real; one file each, found by id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from windtunnel.learning.tasks.base import Task, TaskSetting
from windtunnel.registry import Registry
from windtunnel.techniques.knobs import Knob


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A task that a scenario can name."""

    id: str
    summary: str
    build: Callable[[TaskSetting, dict[str, Any]], Task]
    """(setting, knobs) → the task with its data."""
    knobs: dict[str, Knob] = field(default_factory=dict)
    splits: tuple[str, ...] = ("iid",)
    """Ways in which its samples can be given to workers."""
    source: str = ""
    packages: tuple[str, ...] = ()
    """Distributions next to NumPy whose versions curves depend on."""


TASKS: Registry[TaskKind] = Registry("learning_tasks", package="windtunnel.learning.tasks", noun="task")
