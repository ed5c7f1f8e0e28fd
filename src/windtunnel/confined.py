"""Scenarios from programs and pages that may not read this machine's files: what they name is held below a root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from windtunnel.errors import BadInput, Problem, ProblemList


def inside(root: Path | None, given: str, field: str) -> Path:
    """A path below the root, links followed.

    Args:
        root: Folder that may be read; None: nothing may.
        given: Path, relative to the root or absolute.
        field: What names it, for the message.

    Raises:
        BadInput: it lies elsewhere, or no root was given.
    """
    if root is None:
        raise BadInput(Problem(field, "files are not read: start with --root FOLDER", given))
    try:
        found = (root / given).resolve()
        lies_below = found.is_relative_to(root.resolve())
    except (OSError, ValueError, RuntimeError):
        lies_below = False
    if not lies_below:
        raise BadInput(Problem(field, "must lie in the folder that --root names", given))
    return found


def refuse_files_outside(data: Any, folder: Path, root: Path | None) -> None:
    """Refuse a scenario that names a file outside the root.

    Args:
        data: Fields of the scenario; every text in it that is the path of something that exists counts as a file.
        folder: Folder that its paths are relative to.
        root: Folder that may be read; None: nothing may.

    Raises:
        BadInput: with every such field.
    """
    problems = ProblemList()
    allowed = None if root is None else root.resolve()
    for field, text in _texts(data, ""):
        try:
            found = (folder / Path(text).expanduser()).resolve()
            exists = found.exists()
        except (OSError, ValueError, RuntimeError):
            continue
        if exists and (allowed is None or not found.is_relative_to(allowed)):
            rule = "files are not read: start with --root FOLDER" if allowed is None else "lies outside --root"
            problems.add(field, text, rule)
    problems.raise_if_any()


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, f"{path}.{name}".strip("."))
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _texts(inner, f"{path}.{i}".strip("."))
    elif isinstance(value, str) and value and len(value) < 4096 and "\n" not in value:
        yield path, value
