"""Switches that launch files state as they stand: options of a target, and notes where a target has no option.

Both are declared next to the fields of the plan and of the workload (`specs.switches.Export`). Fields that depend on
others are stated by each target's own writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from windtunnel.specs.plan import CarriedSwitches, Overlap, PlanSpec, Recompute
from windtunnel.specs.switches import Switch, switches_of
from windtunnel.specs.workload import TrainingSpec

if TYPE_CHECKING:
    from windtunnel.exporters.target import Draft
    from windtunnel.training.step_setup import PreparedStep


def write_switches(
    prepared: PreparedStep, target: str, draft: Draft, write: Callable[[str, Any], None] | None = None
) -> None:
    """State every switch whose value stands as it is, or note that the target cannot.

    Args:
        prepared: the step.
        target: id of the target.
        draft: takes the notes.
        write: states a value under an option of the target, or reports that the release lacks it; absent: only notes
            are taken.
    """
    from windtunnel.training.explain.step_facts import step_facts

    facts = step_facts(prepared)
    for switch, value in _values(prepared):
        stated = switch.exported
        if not value or value == stated.usual or (switch.ignored_when is not None and switch.ignored_when(facts)):
            continue
        if target in stated.options:
            if write is not None:
                write(stated.options[target], value)
        elif target not in stated.own_code:
            for note in stated.notes(value):
                draft.lacks(note)


def _values(prepared: PreparedStep) -> Iterator[tuple[Switch, Any]]:
    """Every switch that declares an option or a note, with the value that the step takes."""
    plan = prepared.plan
    for record, holder in (
        (CarriedSwitches, plan.switches),
        (PlanSpec, plan),
        (Overlap, plan),
        (Recompute, plan.recompute),
        (TrainingSpec, prepared.training),
    ):
        for name, switch in switches_of(record).items():
            decided = switch.resolved_as or name
            if switch.exported.stands_alone and hasattr(holder, decided):
                yield switch, getattr(holder, decided)
