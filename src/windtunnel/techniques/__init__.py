"""Published systems as passes. One file each; found by the registry and by entry points `windtunnel.technique`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windtunnel.errors import ProblemList
from windtunnel.registry import Registry
from windtunnel.techniques.base import LEVELS, Applied, Technique

__all__ = ["LEVELS", "REGISTRY", "Applied", "Technique", "applied"]


REGISTRY: Registry[Technique] = Registry("techniques", package="windtunnel.techniques.published")


def applied(
    chosen: Sequence[str | dict[str, dict[str, Any]]], problems: ProblemList | None = None
) -> tuple[Applied, ...]:
    """Look techniques up, set their knobs, order them by level and `after`, and detect conflicts.

    Raises:
        BadInput: unknown ids or knobs, values out of range, conflicting edits; all at once.
    """
    own = problems if problems is not None else ProblemList()
    out: list[Applied] = []
    for entry in chosen:
        items = {entry: {}} if isinstance(entry, str) else entry
        for technique_id, given in items.items():
            technique = REGISTRY.get(technique_id)
            knobs = {name: knob.default for name, knob in technique.knobs.items()}
            for name, value in (given or {}).items():
                if name not in technique.knobs:
                    own.add(f"techniques.{technique_id}.{name}", value, f"unknown knob; known are {', '.join(technique.knobs) or 'none'}")
                    continue
                knob = technique.knobs[name]
                if (knob.low is not None and value < knob.low) or (knob.high is not None and value > knob.high):
                    own.add(f"techniques.{technique_id}.{name}", value, f"must be {knob.low} to {knob.high}")
                knobs[name] = value
            out.append(Applied(technique, knobs))
    edited: dict[tuple[str, str], str] = {}
    for item in out:
        for edit in item.technique.edits:
            other = edited.get(edit)
            if other and other not in item.technique.after:
                own.add("techniques", item.technique.id, f"conflicts with {other}: both edit {edit[1]} at level {edit[0]}")
            edited[edit] = item.technique.id
    if problems is None:
        own.raise_if_any()
    order = {name: i for i, name in enumerate(LEVELS)}
    return tuple(sorted(out, key=lambda a: min((order[level] for level in a.technique.levels), default=0)))
