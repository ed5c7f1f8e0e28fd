"""What a sweep is: its scenario, command, axes and draws; the manifest that a folder keeps of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading
from windtunnel.files.checksums import unsealed
from windtunnel.specs.settings import canonical
from windtunnel.sweeps.axes import MOST_VALUES, Axis, cells_of, points_of
from windtunnel.sweeps.cells import SCHEMA, Cell, cell_of, physics

MOST_DRAWS = 100_000
MANIFEST = "manifest.json"
MANIFEST_COPY = "manifest.copy.json"
"""The same again: what a sweep is cannot be computed anew where its manifest is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """Everything that decides which cells there are and what they result in."""

    verb: str
    scenario: dict[str, Any]
    """Fields of the scenario, overrides applied, as plain data."""
    folder: str
    """Folder that its paths are relative to."""
    axes: tuple[Axis, ...]
    draws: int = 0
    """Draws of each combination; 0: the predictions themselves."""
    seed: int = 1
    full: bool = False
    """Whether rows keep the whole result as JSON."""
    physics: str = field(default_factory=physics)

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that vary, in the order of the axes."""
        return tuple(name for axis in self.axes for name in axis.fields)

    def __len__(self) -> int:
        return cells_of(self.axes) * max(1, self.draws)

    def cells(self) -> Iterator[Cell]:
        """All cells: combinations in order, the draws of each together."""
        base = canonical(
            {"verb": self.verb, "scenario": self.scenario, "seed": self.seed, "schema": SCHEMA, "physics": self.physics}
        )
        for point in points_of(self.axes):
            for draw in range(self.draws) if self.draws else (None,):
                yield cell_of(base, point.settings, draw)

    def manifest(self) -> dict[str, Any]:
        """As `manifest.json` keeps it."""
        from windtunnel import __version__

        return {
            "schema": SCHEMA,
            "verb": self.verb,
            "axes": [{"fields": list(axis.fields), "values": [list(v) for v in axis.values]} for axis in self.axes],
            "draws": self.draws,
            "seed": self.seed,
            "full": self.full,
            "cells": len(self),
            "scenario": self.scenario,
            "folder": self.folder,
            "version": __version__,
            "physics": self.physics,
        }


def read_manifest(folder: Path) -> Definition:
    """The definition that a sweep's folder keeps, from the copy where the manifest itself is damaged.

    Raises:
        BadInput: there is none, or neither can be read.
    """
    try:
        return manifest_in(folder / MANIFEST)
    except BadInput as error:
        if not (folder / MANIFEST_COPY).is_file():
            rule = f"is not the folder of a sweep, or its {MANIFEST} is damaged: {error.problems[0].rule}"
            raise BadInput(Problem("DIR", rule, str(folder))) from None
    try:
        return manifest_in(folder / MANIFEST_COPY)
    except BadInput:
        rule = f"{MANIFEST} and its copy are damaged: start the sweep again with its first command and the same --out"
        raise BadInput(Problem("DIR", rule, str(folder))) from None


def manifest_in(path: Path) -> Definition:
    """The definition that a file keeps.

    Raises:
        BadInput: it cannot be read, is a link or is damaged.
    """
    if path.is_symlink():
        raise BadInput(Problem("", "is a link", file=str(path)))
    try:
        data = unsealed(reading.read_text(path))
        for name, kind in _KINDS.items():
            if type(data[name]) is not kind:
                raise TypeError(f"`{name}` must be a {kind.__name__}")
        if not 0 <= data["draws"] <= MOST_DRAWS:
            raise ValueError(f"`draws` must lie from 0 to {MOST_DRAWS:,}")
        axes = tuple(map(_axis, data["axes"]))
        if cells_of(axes) * max(1, data["draws"]) > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES:,} cells")
        return Definition(
            verb=data["verb"],
            scenario=data["scenario"],
            folder=data["folder"],
            axes=axes,
            draws=data["draws"],
            seed=data["seed"],
            full=data["full"],
            physics=data["physics"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(Problem("", f"is damaged: {error}", file=str(path))) from None


_KINDS = {"verb": str, "scenario": dict, "folder": str, "draws": int, "seed": int, "full": bool, "physics": str}
"""Fields of a manifest, which may come from others, and their kinds."""


def _axis(kept: Any) -> Axis:
    """One axis as a manifest keeps it."""
    axis = Axis(tuple(kept["fields"]), tuple(tuple(values) for values in kept["values"]))
    if not all(isinstance(name, str) for name in axis.fields):
        raise TypeError("`fields` of an axis must be texts")
    if any(len(values) != len(axis.fields) for values in axis.values):
        raise ValueError("an axis must have as many values a point as fields")
    return axis


def differences(old: Definition, new: Definition) -> list[str]:
    """What differs between two definitions, a line each; empty where the cells are the same."""
    a, b = old.manifest(), new.manifest()
    lines = []
    for name in ("verb", "seed", "draws", "full", "version", "physics", "folder"):
        if a[name] != b[name]:
            lines.append(f"{name}: {a[name]} → {b[name]}")
    before, after = ({tuple(x["fields"]): x["values"] for x in m["axes"]} for m in (a, b))
    for fields in {**before, **after}:
        if before.get(fields) != after.get(fields):
            lines.append(f"{', '.join(fields)}: {_told(before.get(fields))} → {_told(after.get(fields))}")
    lines += [f"scenario.{path}: {x} → {y}" for path, x, y in _changes(a["scenario"], b["scenario"], "")]
    return lines


def _told(values: list[list[Any]] | None) -> str:
    if values is None:
        return "not varied"
    words = [", ".join(str(x) for x in point) for point in values]
    return " | ".join(words if len(words) <= 8 else [*words[:7], f"… {len(words)} values"])


def _changes(a: Any, b: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted({*a, *b}):
            yield from _changes(a.get(name), b.get(name), f"{path}.{name}".strip("."))
    elif a != b:
        yield path, a, b
