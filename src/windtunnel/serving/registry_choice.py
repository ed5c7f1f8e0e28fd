"""An entry of a registry as a scenario names it: `id`, or `{id: {knob: value}}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from windtunnel.errors import BadInput, ProblemList, nearest_name
from windtunnel.registry import Registry
from windtunnel.specs.base import Named, named

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chosen(Generic[T]):
    """An entry with its knobs set."""

    id: str
    entry: T
    knobs: dict[str, Any] = field(default_factory=dict)


def choose(registry: Registry[T], value: Named, where: str, fallback: str, problems: ProblemList) -> Chosen[T]:
    """Look an entry up and lay the given knobs over its defaults; what is wrong is added to `problems`."""
    id, given = named(value)
    if isinstance(value, dict) and len(value) != 1:
        problems.add(where, value, "must name one entry: its id, or {id: {knob: value}}")
    try:
        entry = registry.get(id, where)
    except BadInput as error:
        problems.extend(error.problems)
        return Chosen(fallback, registry.get(fallback))
    declared: Mapping[str, Any] = getattr(entry, "knobs", {})
    knobs = {name: knob.default for name, knob in declared.items()}
    for name, own in given.items():
        if name not in declared:
            rule = f"unknown knob; known are {', '.join(declared) or 'none'}"
            problems.add(f"{where}.{id}.{name}", own, rule, nearest=nearest_name(name, declared))
        elif rule := declared[name].problem(own) or "":
            problems.add(f"{where}.{id}.{name}", own, rule)
        else:
            knobs[name] = own
    return Chosen(id, entry, knobs)
