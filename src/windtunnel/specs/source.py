"""A scenario from wherever it is: a file, a mapping, or a `Scenario` itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windtunnel.specs.scenario import Scenario

Source = str | Path | dict[str, Any] | Scenario


class FieldsInFolder(dict[str, Any]):
    """A scenario's fields as a mapping, whose paths are relative to a folder of its own."""

    def __init__(self, fields: dict[str, Any], folder: Path) -> None:
        super().__init__(fields)
        self.folder = folder


def folder_of(source: Source) -> Path:
    """Folder that paths in a scenario are relative to: that of its file, or the working directory."""
    if isinstance(source, FieldsInFolder):
        return source.folder
    return Path(source).parent if isinstance(source, (str, Path)) else Path()


def load(source: Source, overrides: Sequence[str] = ()) -> tuple[Scenario, Any, Path]:
    """A scenario, the line of each of its fields, and the folder that its paths are relative to.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.

    Returns:
        The scenario; the source map of its file, None where it does not come from one; the folder of the file, or the
        working directory.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    if isinstance(source, Scenario):
        if overrides:
            from windtunnel.specs.loader import load_scenario

            return load_scenario(source.model_dump(mode="json", exclude_unset=True), list(overrides)), None, Path()
        return source, None, Path()
    from windtunnel.specs.loader import load_scenario_with_source

    scenario, lines = load_scenario_with_source(source, list(overrides))
    return scenario, lines, folder_of(source)


def is_serving(source: Source, overrides: Sequence[str] = ()) -> bool:
    """Whether a scenario has a section `serving` and none `training`.

    Raises:
        BadInput: it cannot be read.
    """
    from windtunnel.specs.loader import fields_of

    if isinstance(source, Scenario):
        return source.serving is not None and source.training is None
    data, _ = fields_of(source, tuple(overrides))
    return "serving" in data and "training" not in data
