"""An entry of a registry as a scenario names it: `id`, or `{id: {knob: value}}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from windtunnel.errors import BadInput, ProblemList
from windtunnel.registry import Registry
from windtunnel.specs.base import Named
from windtunnel.techniques.knobs import named, with_defaults

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
    return Chosen(id, entry, with_defaults(declared, given, f"{where}.{id}", problems))
