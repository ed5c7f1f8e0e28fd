"""The record that passes from step to step while a scenario is read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from windtunnel.errors import Problem


@dataclass(slots=True)
class SourceMap:
    """Where each field of a file was written."""

    file: str | None = None
    lines: dict[str, int] = field(default_factory=dict)
    """Dotted field path → line, 1-based."""
    overridden: set[str] = field(default_factory=set)

    def where(self, field: str) -> tuple[str | None, int | None]:
        """File and line of a field, or of its nearest written parent; `--set` for an override."""
        parts = field.split(".") if field else []
        for n in range(len(parts), 0, -1):
            path = ".".join(parts[:n])
            if path in self.overridden:
                return f"--set {path}", None
            if path in self.lines:
                return self.file, self.lines[path]
        return self.file, self.lines.get("")

    def located(self, problem: Problem) -> Problem:
        """A problem with the file and line of its field, where it has none yet."""
        if problem.file is not None:
            return problem
        file, line = self.where(problem.field)
        return replace(problem, file=file, line=line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Fields of a scenario, or of a file next to it, as plain data that is not yet checked."""

    data: dict[str, Any]
    """A copy that no caller holds, so that steps may change it."""
    folder: Path
    """Paths in the fields are relative to it."""
    lines: SourceMap
    problems: tuple[Problem, ...] = ()
    """What steps found wrong so far; the file and line of most are looked up where they are reported."""
