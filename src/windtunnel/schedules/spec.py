"""What a schedule file declares about itself, and the one error that schedules raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windtunnel.errors import BadInput, Problem
from windtunnel.schedules.table import InstructionTable, ScheduleCosts, ScheduleLimits


class ScheduleError(BadInput):
    """A schedule cannot be built for the given sizes, or a table cannot run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """One pipeline schedule. Each schedule file defines one as its module constant `SCHEDULE`."""

    id: str
    title: str
    source: str
    """Paper or code that defines the order, with its year and link."""
    construct: Callable[[int, int, int, ScheduleCosts | None, ScheduleLimits | None], InstructionTable]
    """(p, m, v, costs, limits) → table. Sizes have been checked before the call."""
    check: Callable[[int, int, int], Problem | None]
    """(p, m, v) → what is wrong with these sizes, or None."""
    split_backward: bool
    copies: int = 1
    """Copies of the model; with two, stages hold each parameter twice over."""
    units: bool = False
    """Forwards and backwards run in pairs whose exchanges hide behind each other's products."""
    uses_costs: bool = False
    """The order depends on the costs or the limits; the others are cached by their sizes alone."""


def needs_one_chunk(name: str) -> Callable[[int, int, int], Problem | None]:
    """The size rule of schedules that give each stage a single model chunk."""

    def check(p: int, m: int, v: int) -> Problem | None:
        rule = f"schedule {name} holds one model chunk per stage; use 1"
        return None if v == 1 else Problem("vpp", rule, v)

    return check


def needs_two_chunks(name: str) -> Callable[[int, int, int], Problem | None]:
    """The size rule of V-shaped schedules: each stage holds one chunk of the way down and one of the way up."""

    def check(p: int, m: int, v: int) -> Problem | None:
        rule = f"schedule {name} holds two model chunks per stage; use 2"
        return None if v == 2 else Problem("vpp", rule, v)

    return check
