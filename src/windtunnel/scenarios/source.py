"""A scenario from wherever it is: a file, a mapping, or a `Scenario` itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from windtunnel import example_files
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
    return file_of(source).parent if isinstance(source, (str, Path)) else Path()


def file_of(source: str | Path) -> Path:
    """The file that is named, or where there is none of that name, the example."""
    file = Path(source)
    if os.path.lexists(file):
        return file
    return example_files.find(str(source)) or file
