"""Which folders a process may read and write for whoever asks it, and whether it may run Python files from them.

A command line has no scope: its user may read and write what the operating system lets him. A server confines itself
before it answers (`confine`), and the processes that it starts inherit the scope through the environment. A scope holds
where a file is opened, whatever named it: a field of a scenario, a setting, a side file or an option.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from windtunnel.errors import BadInput, Problem

Code = Literal["never", "trusted", "any"]
"""Which Python files that a scenario names may run: none, those that the user has trusted, or all of the scope."""
ENVIRONMENT = "WINDTUNNEL_SCOPE"
"""Variable that hands a scope to processes that a confined process starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What may be opened. Folders are absolute and hold no links."""

    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    code: Code = "trusted"
    option: str = "--root"
    """Option of the server that names the folder, for messages."""

    @staticmethod
    def of(root: Path | None, *, may_write: bool = False, code: Code = "never", option: str = "--root") -> Scope:
        """The scope of a server over a folder; None: nothing may be read."""
        folders = () if root is None else (Path(os.path.realpath(root)),)
        return Scope(readable=folders, writable=folders if may_write else (), code=code, option=option)

    def text(self) -> str:
        """The scope as text, for `ENVIRONMENT`."""
        return json.dumps(
            {
                "readable": [str(one) for one in self.readable],
                "writable": [str(one) for one in self.writable],
                "code": self.code,
                "option": self.option,
            }
        )

    def environment(self) -> dict[str, str]:
        """The environment of a process that has to keep this scope; it imports nothing from its working directory."""
        return {**os.environ, ENVIRONMENT: self.text(), "PYTHONSAFEPATH": "1"}


_of_this_call: ContextVar[Scope | None] = ContextVar("windtunnel_scope", default=None)


def current() -> Scope | None:
    """The scope that holds here; None: that of the operating system alone."""
    return _of_this_call.get() or _of_process()


def confine(scope: Scope) -> None:
    """Hold a scope in this process, all its threads and all processes that it starts, until it ends."""
    os.environ |= {ENVIRONMENT: scope.text(), "PYTHONSAFEPATH": "1"}


@contextmanager
def confined(scope: Scope) -> Iterator[None]:
    """Hold a scope while a block runs, in the thread that runs it."""
    token = _of_this_call.set(scope)
    try:
        yield
    finally:
        _of_this_call.reset(token)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder that may be written here, whatever the scope; it is gone afterwards."""
    with tempfile.TemporaryDirectory() as made:
        folder, scope = Path(os.path.realpath(made)), current()
        with confined(replace(scope, writable=(*scope.writable, folder))) if scope else nullcontext():
            yield folder


def _of_process() -> Scope | None:
    text = os.environ.get(ENVIRONMENT)
    if not text:
        return None
    try:
        given = json.loads(text)
        return Scope(
            readable=tuple(map(Path, given["readable"])),
            writable=tuple(map(Path, given["writable"])),
            code=given["code"],
            option=str(given["option"]),
        )
    except (ValueError, TypeError, KeyError):
        raise BadInput(Problem(ENVIRONMENT, "must be a scope, as a server writes it for its processes")) from None


def below(path: Path, folders: tuple[Path, ...]) -> tuple[Path, tuple[str, ...]] | None:
    """The folder that a path lies below, and the parts of the path from there; None: below none.

    No link is followed: `..` takes the part before it away, and a link on the way is refused when it is opened.
    """
    whole = Path(os.path.abspath(path))
    for folder in folders:
        if whole.is_relative_to(folder):
            return folder, whole.relative_to(folder).parts
    return None
