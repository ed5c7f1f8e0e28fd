"""Files that a launch file names: below its own folder, or the repository it lies in, and never through a link.

A launch file comes from others. What it names is read as a part of it and its values are printed, so that a name which
leads anywhere else counts as a file that is not there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from windtunnel.errors import BadInput
from windtunnel.files import reading
from windtunnel.files.scope import Scope, below, confined, current
from windtunnel.files.user_folders import home

MOST_BYTES = 1 << 20
"""Bytes of a file that another one names."""


def beside(file: str, name: str) -> Path | None:
    """The file that a launch file names: from its folder, or from one above it in its repository; None: there is none.

    Args:
        file: the launch file.
        name: as it names the other one; files are run from the top of a repository too.
    """
    if not name or "$" in name or "\0" in name or name.startswith("~") or file in ("", "-"):
        return None
    folder = _folder_of(file)
    root = _root(folder)
    with confined_to(root):
        for base in (folder, *folder.parents):
            if not base.is_relative_to(root):
                break
            path = Path(os.path.normpath(base / name))
            if reading.is_file(path):
                return path
    return None


def text_beside(file: str, name: str) -> str | None:
    """The text of the file that a launch file names; None where there is none.

    Raises:
        BadInput: it is larger than `MOST_BYTES`, or no text.
    """
    path = beside(file, name)
    if path is None:
        return None
    with confined_to(_root(_folder_of(file))):
        return reading.read_text(path, most_bytes=MOST_BYTES)


def text_below(folder: Path, name: str) -> str | None:
    """The text of a file below a folder; None where there is none that may be read."""
    if not name or "\0" in name:
        return None
    root = Path(os.path.realpath(folder))
    with confined_to(root):
        try:
            return reading.read_text(os.path.normpath(root / name), most_bytes=MOST_BYTES)
        except BadInput:
            return None


@contextmanager
def confined_beside(file: str, path: Path) -> Iterator[None]:
    """Read what lies around a file that `beside` found as that did; a file from elsewhere as the user's own."""
    root = _root(_folder_of(file))
    with confined_to(root) if path.is_relative_to(root) else nullcontext():
        yield


def _folder_of(file: str) -> Path:
    path = Path(os.path.abspath(file))
    return Path(os.path.realpath(path if path.is_dir() else path.parent))


def _root(folder: Path) -> Path:
    """The top of the repository of a folder; the folder itself where it is in none, or in that of a home folder."""
    top = next((one for one in (folder, *folder.parents) if os.path.lexists(one / ".git")), folder)
    return folder if Path(os.path.realpath(home())).is_relative_to(top) else top


@contextmanager
def confined_to(root: Path) -> Iterator[None]:
    """Read below a folder alone, and below that of a scope which holds here."""
    root, outer = Path(os.path.realpath(root)), current()
    if outer is None:
        inner = Scope(readable=(root,))
    elif below(root, outer.readable) is not None:
        inner = replace(outer, readable=(root,))
    else:
        inner = outer
    with confined(inner):
        yield
