"""From what a user writes to the definition of a sweep, with every problem at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel.catalog.load import load
from windtunnel.commands import COMMANDS, meant_by, swept
from windtunnel.errors import UNSET, BadInput, Problem, ProblemList, WindtunnelError, nearest_name
from windtunnel.scenarios.explain import UNKNOWN_FIELD
from windtunnel.scenarios.load import fields_of
from windtunnel.scenarios.source import FieldsInFolder, folder_of
from windtunnel.specs.settings import with_settings
from windtunnel.sweeps.axes import MOST_VALUES, Axis, cells_of, read_axes
from windtunnel.sweeps.definition import MOST_DRAWS, Definition


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
    """Read scenario, axes and command.

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
    verb = asked.verb or meant_by(data)
    command = COMMANDS.get(verb) if verb in swept() else None
    if command is None:
        nearest = nearest_name(verb, swept())
        rule = f"no such command of a sweep; known: {', '.join(swept())}"
        problems.add("--verb", verb, rule, nearest=nearest)
    else:
        varied = {name.split(".")[0]: True for axis in axes for name in axis.fields}
        for section in command.missing({**varied, **data}):
            problems.add(section, UNSET, f"is required to sweep `{verb}`")
    if not 0 <= asked.draws <= MOST_DRAWS:
        problems.add("--draws", asked.draws, f"must lie from 0 to {MOST_DRAWS:,}")
    if command is not None and asked.draws and command.draws is None:
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
    problems.raise_if_any()
    folder = folder_of(asked.source).resolve()
    problems.extend(_unknown_fields(data, axes, folder))
    problems.raise_if_any()
    return Definition(
        verb=verb,
        scenario=data,
        folder=str(folder),
        axes=axes,
        draws=asked.draws,
        seed=asked.seed,
        full=asked.full,
    )


def _unknown_fields(data: dict[str, Any], axes: Sequence[Axis], folder: Path) -> list[Problem]:
    """Axes whose field no scenario has: each of their cells would be refused for it."""

    def unknown(fields: dict[str, Any]) -> list[Problem]:
        try:
            load(FieldsInFolder(fields, folder))
        except BadInput as error:
            return [problem for problem in error.problems if problem.rule == UNKNOWN_FIELD]
        except WindtunnelError:
            pass
        return []

    if unknown(data):  # a command that takes no scenario
        return []
    firsts = (dict(zip(axis.fields, axis.values[0], strict=True)) for axis in axes)
    return [problem for first in firsts for problem in unknown(with_settings(data, first))]
