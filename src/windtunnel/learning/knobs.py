"""Knobs of tasks, algorithms and their parts: what a scenario gives, laid over the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.errors import ProblemList, nearest_name
from windtunnel.techniques.base import Knob

__all__ = ["Knob", "with_defaults"]


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
