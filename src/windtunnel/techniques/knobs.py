"""Knobs of entries of registries (algorithms, strategies, tasks): what a scenario gives, laid over the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.errors import ProblemList, nearest_name
from windtunnel.specs.base import Named
from windtunnel.techniques.base import Knob

__all__ = ["Knob", "named", "names_a_part", "with_defaults"]


def named(value: Named) -> tuple[str, dict[str, Any]]:
    """Id and knobs; of several ids the first."""
    if isinstance(value, str):
        return value, {}
    name = next(iter(value), "")
    return name, dict(value.get(name) or {})


def names_a_part(value: Any) -> bool:
    """Whether a knob's value is an id, or one id with a mapping of its knobs."""
    if isinstance(value, dict) and len(value) == 1:
        ((name, knobs),) = value.items()
        return isinstance(name, str) and (knobs is None or isinstance(knobs, dict))
    return isinstance(value, str)


def with_defaults(
    knobs: Mapping[str, Knob], given: Mapping[str, Any], field: str, problems: ProblemList
) -> dict[str, Any]:
    """Defaults with the given values laid over them; what is wrong goes to `problems`, each under `field`.name."""
    out = {name: knob.default for name, knob in knobs.items()}
    for name, value in given.items():
        where = f"{field}.{name}"
        if name not in knobs:
            rule = f"unknown knob; known are {', '.join(knobs) or 'none'}"
            problems.add(where, value, rule, nearest=nearest_name(name, knobs))
        elif rule := knobs[name].problem(value) or "":
            problems.add(where, value, rule)
        else:
            out[name] = value
    return out
