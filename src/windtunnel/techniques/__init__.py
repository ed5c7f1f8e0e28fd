"""Published systems as passes. One file each; found by the registry and by entry points `windtunnel.techniques`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput, ProblemList, nearest_name
from windtunnel.registry import Registry
from windtunnel.techniques.base import LEVELS, Applied, Technique
from windtunnel.techniques.limits import Limits

if TYPE_CHECKING:
    from windtunnel.specs.scenario import Scenario

__all__ = ["LEVELS", "REGISTRY", "Applied", "Limits", "Technique", "applied", "remarks"]

REGISTRY: Registry[Technique] = Registry("techniques", package="windtunnel.techniques.published")


def applied(
    chosen: Sequence[str | dict[str, dict[str, Any]]], problems: ProblemList | None = None
) -> tuple[Applied, ...]:
    """Look techniques up, set their knobs, order them by level and `after`, and detect conflicts.

    Raises:
        BadInput: unknown ids or knobs, values out of range, conflicting edits; all at once. With `problems` they are
            collected there instead, and what could be read is returned.
    """
    own = problems if problems is not None else ProblemList()
    out: list[Applied] = []
    for entry in chosen:
        for technique_id, given in ({entry: {}} if isinstance(entry, str) else entry).items():
            try:
                technique = REGISTRY.get(technique_id, field="techniques")
            except BadInput as error:
                own.extend(error.problems)
                continue
            if any(item.technique.id == technique.id for item in out):
                own.add("techniques", technique.id, "is given twice")
                continue
            out.append(Applied(technique, _knobs(technique, given or {}, own)))
    _check_conflicts(out, own)
    if problems is None:
        own.raise_if_any()
    return _ordered(out)


def remarks(chosen: Sequence[Applied], scenario: Scenario, *, serving: bool = False) -> tuple[str, ...]:
    """Warnings: techniques that do nothing in a scenario, and what partial ones leave out.

    Args:
        chosen: techniques.
        scenario: that names them.
        serving: whether the scenario is served; else it trains.
    """
    out: list[str] = []
    for item in chosen:
        one = item.technique
        reason = one.idle(serving=serving) or one.applies_to(scenario)
        if reason:
            out.append(f"technique {one.id} does nothing here: {reason}")
        elif one.status == "partial":
            out.append(f"technique {one.id} is partial: {one.missing}")
    return tuple(out)


def _knobs(technique: Technique, given: dict[str, Any], problems: ProblemList) -> dict[str, Any]:
    """Defaults with the given values laid over them."""
    knobs = {name: knob.default for name, knob in technique.knobs.items()}
    for name, value in given.items():
        field = f"techniques.{technique.id}.{name}"
        if name not in knobs:
            rule = f"unknown knob; known are {', '.join(knobs) or 'none'}"
            problems.add(field, value, rule, nearest=nearest_name(name, knobs))
        elif rule := technique.knobs[name].problem(value) or "":
            problems.add(field, value, rule)
        else:
            knobs[name] = value
    return knobs


def _check_conflicts(chosen: list[Applied], problems: ProblemList) -> None:
    """Two techniques that edit one tag at one level conflict unless one comes `after` the other."""
    for i, first in enumerate(chosen):
        for second in chosen[i + 1 :]:
            a, b = first.technique, second.technique
            shared = [edit for edit in a.edits if edit in b.edits]
            if shared and b.id not in a.after and a.id not in b.after:
                level, tag = shared[0]
                problems.add("techniques", b.id, f"conflicts with {a.id}: both edit {tag} at level {level}")


def _ordered(chosen: list[Applied]) -> tuple[Applied, ...]:
    """By lowest level, then as given, then so that each follows what it comes `after`."""
    rank = {name: i for i, name in enumerate(LEVELS)}
    waiting = sorted(chosen, key=lambda item: min((rank[level] for level in item.technique.levels), default=0))
    out: list[Applied] = []
    while waiting:
        ids = {item.technique.id for item in waiting}
        free = next((x for x in waiting if not ids & (set(x.technique.after) - {x.technique.id})), waiting[0])
        waiting.remove(free)
        out.append(free)
    return tuple(out)
