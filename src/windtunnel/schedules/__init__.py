"""Pipeline schedules: one file each, from (p, m, v, costs, limits) to a checked instruction table.

A new schedule is one new file that defines `SCHEDULE = ScheduleSpec(...)`; nothing else has to change.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import fields
from functools import lru_cache

import numpy as np

from windtunnel.errors import Problem, nearest_name
from windtunnel.schedules.evaluate import evaluate
from windtunnel.schedules.spec import ScheduleError, ScheduleSpec
from windtunnel.schedules.table import InstructionTable, ScheduleCosts, ScheduleLimits
from windtunnel.schedules.validate import dependencies, live_activations, validate

__all__ = [
    "InstructionTable",
    "ScheduleCosts",
    "ScheduleError",
    "ScheduleLimits",
    "ScheduleSpec",
    "build",
    "dependencies",
    "describe",
    "evaluate",
    "list_ids",
    "live_activations",
    "validate",
]


@lru_cache(maxsize=1)
def _specs() -> dict[str, ScheduleSpec]:
    found: dict[str, ScheduleSpec] = {}
    for module in pkgutil.iter_modules(__path__):
        spec = getattr(importlib.import_module(f"{__name__}.{module.name}"), "SCHEDULE", None)
        if isinstance(spec, ScheduleSpec):
            found[spec.id] = spec
    return dict(sorted(found.items()))


def list_ids() -> list[str]:
    """The ids of all schedules, sorted."""
    return list(_specs())


def describe(schedule_id: str) -> ScheduleSpec:
    """What a schedule declares about itself.

    Raises:
        ScheduleError: no schedule has this id; the message names the nearest.
    """
    specs = _specs()
    if schedule_id not in specs:
        rule = f"unknown schedule; known are {', '.join(specs)}"
        raise ScheduleError(Problem("schedule", rule, schedule_id, nearest=nearest_name(schedule_id, specs)))
    return specs[schedule_id]


_ARRANGED: dict[tuple[object, ...], InstructionTable] = {}
"""The latest tables that were arranged for given costs or limits, oldest first."""


def _content(record: ScheduleCosts | ScheduleLimits | None) -> tuple[object, ...]:
    """The values of a record as something hashable."""
    if record is None:
        return ()
    values = (getattr(record, field.name) for field in fields(record))
    return tuple((x.shape, x.tobytes()) if isinstance(x, np.ndarray) else x for x in values)


@lru_cache(maxsize=128)
def _built(schedule_id: str, p: int, m: int, v: int) -> InstructionTable:
    return describe(schedule_id).construct(p, m, v, None, None)


def build(
    schedule_id: str,
    p: int,
    m: int,
    v: int = 1,
    costs: ScheduleCosts | None = None,
    limits: ScheduleLimits | None = None,
) -> InstructionTable:
    """The instruction table of a schedule. Tables are cached and read-only.

    Args:
        schedule_id: one of `list_ids()`.
        p: pipeline stages.
        m: micro-batches per step.
        v: model chunks per stage.
        costs: seconds per stage and chunk, for schedules that arrange themselves by time; absent means all equal.
        limits: activations a stage may hold; used by the same schedules.

    Raises:
        ScheduleError: unknown id, or sizes that the schedule cannot run; one line with the nearest fix.

    Example:
        >>> len(build("1f1b", p=4, m=8))
        64
    """
    spec = describe(schedule_id)
    for name, value in (("pp", p), ("micro_batches", m), ("vpp", v)):
        if value < 1:
            raise ScheduleError(Problem(name, "must be at least 1", value))
    problem = spec.check(p, m, v)
    if problem is not None:
        raise ScheduleError(problem)
    if spec.uses_costs and (costs is not None or limits is not None):
        key = (schedule_id, p, m, v, _content(costs), _content(limits))
        if key not in _ARRANGED:
            if len(_ARRANGED) >= 64:
                _ARRANGED.pop(next(iter(_ARRANGED)))
            _ARRANGED[key] = spec.construct(p, m, v, costs, limits)
        return _ARRANGED[key]
    return _built(schedule_id, p, m, v)
