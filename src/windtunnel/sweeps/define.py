"""From what a user writes to the definition of a sweep, with every problem at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel.errors import UNSET, BadInput, ProblemList
from windtunnel.scenarios.load import fields_of
from windtunnel.scenarios.open_plan import axes_left_to_planner
from windtunnel.scenarios.source import folder_of
from windtunnel.sweeps.axes import MOST_VALUES, Axis, cells_of, read_axes
from windtunnel.sweeps.cells import with_settings
from windtunnel.sweeps.definition import Definition
from windtunnel.sweeps.verbs import VERBS

ORDER = ("reason", "learn", "cluster", "run", "serve", "train")
"""Verb that a scenario's sections mean where none is named: the first whose section it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a user asks for."""

    source: str | Path | dict[str, Any]
    vary: Sequence[str] = ()
    together: Sequence[str] = ()
    overrides: Sequence[str] = ()
    verb: str | None = None
    draws: int = 0
    seed: int = 1
    full: bool = False


def define(asked: Asked) -> Definition:
    """Read scenario, axes and verb.

    Raises:
        BadInput: what cannot be read or does not go together, all at once. What single combinations have wrong is not
            told here: each is a row with its reason.
    """
    problems = ProblemList()
    data, _ = fields_of(asked.source, tuple(asked.overrides))
    axes: tuple[Axis, ...] = ()
    try:
        axes = read_axes(asked.vary, asked.together)
    except BadInput as error:
        problems.extend(error.problems)
    verb = asked.verb or verb_of(data)
    if verb not in VERBS:
        problems.extend([VERBS.unknown(verb, "--verb")])
    section = VERBS.get(verb).section if verb in VERBS else ""
    if section and section not in data and not any(f.split(".")[0] == section for a in axes for f in a.fields):
        problems.add(section, UNSET, f"is required to sweep `{verb}`")
    if asked.draws < 0 or asked.draws > 100_000:
        problems.add("--draws", asked.draws, "must lie from 0 to 100,000")
    if verb in VERBS and asked.draws and not VERBS.get(verb).draws:
        problems.add("--draws", asked.draws, f"`{verb}` has nothing that is drawn")
    if cells_of(axes) * max(1, asked.draws) > MOST_VALUES:
        problems.add("--draws", asked.draws, f"makes more than {MOST_VALUES:,} cells")
    for axis in axes:
        for name, value in zip(axis.fields, axis.values[0] if axis.values else (), strict=True):
            try:
                with_settings(data, {name: value})
            except KeyError:
                rule = "no such field: its parent is not a mapping, or not a list with that entry"
                problems.add("--vary", name, rule)
    if verb in ("train", "fit") and "training" in data:
        left = set(axes_left_to_planner(asked.source, tuple(asked.overrides)))
        open_ = sorted(left - {name for axis in axes for name in axis.fields})
        if open_ and not (open_ == ["plan"] and any(f.startswith("plan.") for a in axes for f in a.fields)):
            told = ", ".join(open_)
            rule = f"{told} is left to the planner, which is asked once: `windtunnel plan S --output planned.yaml`"
            problems.add(open_[0], UNSET, rule)
    problems.raise_if_any()
    folder = folder_of(asked.source).resolve()
    return Definition(
        verb=verb,
        scenario=data,
        folder=str(folder),
        axes=axes,
        draws=asked.draws,
        seed=asked.seed,
        full=asked.full,
    )


def verb_of(data: dict[str, Any]) -> str:
    """The verb that a scenario's sections mean."""
    return next((verb for verb in ORDER if VERBS.get(verb).section in data), "train")
