"""Python files that a scenario names run only where the user has allowed it, for the content that was seen.

Trust is remembered by content, never by path: a digest of the file and of every Python file below its folder, which it
may import. The file is read once, so that it runs as it was compared; what it imports is read again as it is imported.
A file that is reached through a link never runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from windtunnel.errors import BadInput, Problem
from windtunnel.files.reading import read_bytes
from windtunnel.files.scope import current
from windtunnel.files.user_folders import config_folder, of_this_user
from windtunnel.files.writing import whole_file

MOST_CODE_BYTES = 4_000_000
MOST_ENTRIES = 20_000
"""Entries below the folder of a file, beyond which nobody can have looked at what it may import."""
_IMPORTED = (".py", ".pyc", ".so", ".pyd")
ENVIRONMENT = "WINDTUNNEL_TRUST"
"""Set by `--trust`: Python files that scenarios of this command and its processes name may run."""


def trust_all() -> None:
    """Let the Python files that a scenario names run in this process and in those that it starts."""
    os.environ[ENVIRONMENT] = "1"


def run_python(path: str | Path, field: str, module_name: str) -> ModuleType:
    """Run a Python file, where the user trusts it, as a module of a name.

    While it runs, it may import other files of its folder.

    Raises:
        BadInput: it may not run, cannot be read, or is reached through a link.
        Exception: whatever the file raises.
    """
    file = Path(path)
    code = _allowed(file, field)
    module = ModuleType(module_name)
    module.__file__ = str(file)
    folder = str(file.resolve().parent)
    sys.pycache_prefix = str(_store().parent / "pycache")  # compiled files that lie in the folder were not checked
    sys.modules[module_name] = module  # dataclasses and pickling look their module up
    sys.path.insert(0, folder)
    try:
        exec(compile(code, str(file), "exec"), module.__dict__)
    finally:
        sys.path.remove(folder)
        del sys.modules[module_name]
    return module


def trust_file(path: str | Path, field: str = "file") -> str:
    """Remember that a Python file may run for as long as it and its folder's Python files stay as they are.

    Returns:
        Its digest.

    Raises:
        BadInput: it cannot be read, is reached through a link, or its folder holds too much code to look at.
    """
    digest = _digest(Path(path), read_bytes(path, field, most_bytes=MOST_CODE_BYTES), field)
    _remember(digest)
    return digest


def is_trusted(path: str | Path, field: str = "file") -> bool:
    """Whether a Python file may run as it is now, without asking.

    Raises:
        BadInput: it cannot be read or is reached through a link.
    """
    content = read_bytes(path, field, most_bytes=MOST_CODE_BYTES)
    return _digest(Path(path), content, field) in _remembered()


def _allowed(file: Path, field: str) -> bytes:
    """The content of a file that may run."""
    scope = current()
    rule = scope.code if scope is not None else "trusted"
    if rule == "never":
        raise BadInput(Problem(field, "is Python code, which is not run: start with --allow-code", str(file)))
    content = read_bytes(file, field, most_bytes=MOST_CODE_BYTES)
    digest = _digest(file, content, field)
    if rule == "any" or digest in _remembered():
        return content
    if scope is None and os.environ.get(ENVIRONMENT) == "1":
        _remember(digest)
        return content
    raise BadInput(
        Problem(field, "is Python code, which runs only where it is trusted: read it, then add --trust", str(file))
    )


def _digest(file: Path, content: bytes, field: str) -> str:
    """Digest of a file and of all that it may import from its folder."""
    named = (file, *file.parents[: -2 if file.is_absolute() else -1])  # the system may link folders of its root
    if any(part.is_symlink() for part in named):
        rule = "is reached through a link; a Python file runs only where it lies itself"
        raise BadInput(Problem(field, rule, str(file)))
    if file.suffix != ".py":
        raise BadInput(Problem(field, "is not a Python file; its name must end in .py", str(file)))
    folder, found = file.resolve().parent, hashlib.sha256(content)
    for number, (place, other) in enumerate(_entries(folder)):
        if number > MOST_ENTRIES:
            rule = f"lies in a folder of more than {MOST_ENTRIES} entries; move it to a folder of its own"
            raise BadInput(Problem(field, rule, str(file)))
        path = os.path.join(place, other)
        if os.path.islink(path):
            target = Path(os.path.realpath(path))
            if target.is_relative_to(folder):
                found.update(
                    f"\0{os.path.relpath(path, folder)}\0{target.relative_to(folder)}".encode(
                        "utf-8", "surrogateescape"
                    )
                )
            elif _may_be_imported(Path(path).relative_to(folder), target):
                rule = f"lies beside {os.path.relpath(path, folder)}, a link, which it may import whatever it leads to"
                raise BadInput(Problem(field, rule, str(file)))
        elif other.endswith(_IMPORTED):
            found.update(f"\0{os.path.relpath(path, folder)}\0".encode("utf-8", "surrogateescape"))
            found.update(hashlib.sha256(read_bytes(path, field)).digest())
    return found.hexdigest()


def _may_be_imported(link: Path, target: Path) -> bool:
    """Whether a link has a path below a folder from which Python imports a module or a package."""
    *packages, name = link.parts
    code = name.endswith(_IMPORTED) or (name.isidentifier() and target.is_dir())
    return code and all(package.isidentifier() for package in packages)


def _entries(folder: Path) -> Iterator[tuple[str, str]]:
    """Folder and name of everything below a folder, in a fixed order."""
    for place, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        for name in (*folders, *sorted(names)):
            yield place, name


def _store() -> Path:
    return config_folder() / "trusted.json"


def _remembered() -> frozenset[str]:
    """Digests of what the user trusts; none where the list cannot be read, or where others may write to it."""
    try:
        handle = os.open(_store(), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, encoding="utf-8") as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or not of_this_user(status):
                return frozenset()
            found = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return frozenset()
    return frozenset(one for one in found if isinstance(one, str)) if isinstance(found, list) else frozenset()


def _remember(digest: str) -> None:
    """Add a digest to the list; where the list cannot be written, trust ends with the process."""
    store = _store()
    with contextlib.suppress(OSError):
        store.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(store) as stream:
            stream.write(json.dumps(sorted(_remembered() | {digest}), indent=1).encode())
        store.chmod(0o600)
