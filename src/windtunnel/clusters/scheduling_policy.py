"""What every kind of scheduling policy declares, checked where it is declared."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, ClassVar

from windtunnel.clusters.knobs import Knobs, read_knobs
from windtunnel.errors import BadInput, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingPolicy:
    """A name, a source, knobs, and the functions by which a kind of policy decides."""

    name: str
    source: str
    knobs: Knobs = field(default_factory=dict)
    """Name → default."""

    FUNCTIONS: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Field that holds a function → the arguments that it is called with."""

    def __post_init__(self) -> None:
        """Refuse what cannot decide.

        Raises:
            TypeError: a field is no function of its arguments, or fields contradict each other.
        """
        for own, arguments in self.FUNCTIONS.items():
            function = getattr(self, own)
            if function is not None and not _takes(function, len(arguments)):
                rule = f"`{own}` must be a function of ({', '.join(arguments)})"
                raise TypeError(f"policy {self.name!r}: {rule}, not {function!r}")
        if fault := self.contradiction():
            raise TypeError(f"policy {self.name!r}: {fault}")

    def contradiction(self) -> str:
        """What is wrong with the fields together; empty where nothing is."""
        return ""

    def read(self, given: Knobs, field: str) -> Knobs:
        """Knobs with their defaults.

        Raises:
            BadInput: an unknown knob, or one with another kind of value.
        """
        if given and not self.knobs:
            raise BadInput(Problem(field, "has no knobs", list(given)))
        return read_knobs(self.knobs, given, field)


def _takes(function: Any, arguments: int) -> bool:
    """Whether something can be called with a number of arguments."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except ValueError:  # a built-in function that does not state its arguments
        return True
    except TypeError:
        return False
    return True
