"""Jitted functions and the one cache of their machine code.

Numba's own cache looks at the file that a function stands in and not at the files of the functions that it calls, so an
edit of a helper would leave the callers' old machine code in use. Here all jitted functions of the package share one
directory whose name carries a hash of all files that hold any, and of the versions that compile them: after an edit, or
with another Python or Numba, it is another directory.

Importing this module imports Numba.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import numba
from numba.core import config

KERNEL_SOURCES = ("jit.py", "engine/*kernel*.py", "serving/event_loop/kernels/*.py")
"""Files that hold jitted functions, or constants that these read: patterns below the package's folder."""
PREFIX = "windtunnel-kernels-"
KEPT = 4
"""Cache directories that stay, the one in use included: other versions of the sources, of Python or of Numba."""

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(signature: Any = None) -> Callable[[Function], Function]:
    """A decorator for a jitted function that Python calls, or that allocates arrays.

    Args:
        signature: Numba types to compile for at import; None: compiled for the types of each first call.
    """

    def jitted(function: Function) -> Function:
        return _jitted(function, signature)

    return jitted


def helper(function: Function) -> Function:
    """A jitted function that only other jitted functions call and that allocates nothing.

    It counts no references to its arguments; counting takes atomic instructions, more than half of a kernel's run time.
    """
    return _jitted(function, None, _nrt=False)


def _jitted(function: Function, signature: Any, **options: Any) -> Function:
    settings = vars(config)
    own, settings["CACHE_DIR"] = settings["CACHE_DIR"], cache_directory()  # Numba reads it while it decorates
    try:
        jitted: Function = numba.njit(signature, cache=True, error_model="numpy", **options)(function)
    finally:
        settings["CACHE_DIR"] = own
    return jitted


def plain(function: Function) -> Function:
    """The Python function that was jitted."""
    found: Function = getattr(function, "py_func", function)
    return found


@cache
def cache_directory() -> str:
    """The directory of this package's machine code, made if it is missing; directories long out of use are removed.

    It lies in the directory that `NUMBA_CACHE_DIR` names, if that is set; else in the package's `__pycache__`; else,
    where the package cannot be written to, in the user's cache directory; else in a private temporary directory.
    """
    package = Path(__file__).parent
    name = PREFIX + source_hash(package)
    for parent in _parents(package):
        with contextlib.suppress(OSError):
            return str(_open(parent / name))
    return str(_open(_private_directory() / name))


def source_hash(package: Path) -> str:
    """16 hexadecimal digits of what compiled code depends on: kernel sources below a folder, Python, Numba, LLVM."""
    found = hashlib.sha256(repr((sys.version_info[:3], sys.abiflags, numba.__version__, llvmlite.__version__)).encode())
    for pattern in KERNEL_SOURCES:
        for path in sorted(package.glob(pattern)):
            source = path.read_bytes()
            found.update(f"{path.relative_to(package)} {len(source)}\n".encode() + source)
    return found.hexdigest()[:16]


def _parents(package: Path) -> Iterator[Path]:
    """Where the directory may lie, the best place first."""
    if told := vars(config)["CACHE_DIR"]:
        yield Path(told)
    yield package / "__pycache__"
    with contextlib.suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windtunnel"


def _open(directory: Path) -> Path:
    """Make sure that a directory is there and can be written to; a new one displaces the oldest of its kind.

    Raises:
        OSError: It cannot be made, or not be written to.
    """
    fresh = not directory.is_dir()
    directory.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=directory).close()
    os.utime(directory)
    if fresh:
        _remove_oldest(directory)
    return directory


def _remove_oldest(directory: Path) -> None:
    """Remove directories beside this one, but for those that were used last.

    A process that still uses one of them has its code in memory and makes the directory again when it compiles more.
    """
    used = []
    for other in directory.parent.glob(PREFIX + "*"):
        with contextlib.suppress(OSError):  # another process may remove it at the same time
            used.append((other.stat().st_mtime, other))
    for _, other in sorted(used)[:-KEPT]:
        if other != directory:
            shutil.rmtree(other, ignore_errors=True)


def _private_directory() -> Path:
    """A temporary directory that only this user can write to (what is in it will be executed)."""
    path = Path(tempfile.gettempdir(), f"windtunnel-{os.getuid()}")
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022:
        return path
    return Path(tempfile.mkdtemp(prefix="windtunnel-"))
