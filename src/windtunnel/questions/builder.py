"""What the parts of a scenario are built from: the reading of a question, and what is assumed beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from windtunnel.questions.reading import Reading

LOADS = "rate", "outrate", "users", "people", "batch", "offline"
"""Fields that say the load of a deployment."""


@dataclass(slots=True)
class Builder:
    """One question on its way."""

    reading: Reading
    task: str
    assumed: list[tuple[str, Any, str]] = field(default_factory=list)

    def given(self, name: str, path: str, otherwise: Any, why: str = "not said") -> Any:
        """What was said of a field, else what is assumed."""
        if name in self.reading:
            return whole(self.reading.get(name))
        self.assumed.append((path, otherwise, why))
        return otherwise


def whole(value: Any) -> Any:
    """A number without a fraction as a whole one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
