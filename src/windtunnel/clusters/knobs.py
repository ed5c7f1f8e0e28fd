"""Knobs of policies: what a scenario gives, over the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from windtunnel.errors import BadInput, Problem, nearest_name

Knobs = Mapping[str, Any]


def read_knobs(known: Knobs, given: Knobs, field: str) -> Knobs:
    """Knobs with their defaults.

    Raises:
        BadInput: an unknown knob, or one with another kind of value.
    """
    problems = []
    for name, value in given.items():
        if name not in known:
            names = ", ".join(known) or "none"
            near = nearest_name(name, known)
            problems.append(Problem(f"{field}.{name}", f"unknown knob; known: {names}", value, nearest=near))
        elif not _alike(value, known[name]):
            problems.append(Problem(f"{field}.{name}", _rule(known[name]), value))
    if problems:
        raise BadInput(problems)
    return {**known, **given}


def _rule(default: Any) -> str:
    if isinstance(default, list):
        return f"must be a list of {len(default)} positive numbers"
    if isinstance(default, bool):
        return "must be true or false"
    return "must be a list of rising positive numbers" if isinstance(default, tuple) else "must be a positive number"


def _alike(value: Any, default: Any) -> bool:
    """Whether a value is of the kind of a default: a positive number, as many of them, or rising ones (a tuple)."""
    if isinstance(default, bool):
        return isinstance(value, bool)
    if isinstance(default, tuple | list):
        if not isinstance(value, tuple | list) or not value or not all(_alike(one, 1.0) for one in value):
            return False
        if isinstance(default, list):
            return len(value) == len(default)
        return bool((np.diff(np.asarray(value, np.float64)) > 0).all())
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
        return False
    return not isinstance(default, int) or isinstance(value, int)
