"""Jitted functions and the cache of their machine code.

Numba's own cache looks at the file that a function stands in and not at the files of the functions that it calls, so an
edit of a helper would leave the callers' old machine code in use; and it files machine code under the path of the
sources, so that a second copy of them compiles everything again. Here the jitted functions of a package share one
directory whose name carries a hash of all kernel sources that the package compiles, and of the versions that compile
them. In it a function is found by its file's name, its name and its line, wherever the sources lie.

Importing this module imports Numba.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event
from numba.core.caching import CacheImpl, _CacheLocator

from windtunnel.kernel_cache import cache_directory, package_of

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(signature: Any = None, *, allocates: bool = True) -> Callable[[Function], Function]:
    """A decorator for a jitted function that Python calls, or that allocates arrays.

    Args:
        signature: Numba types to compile for at import; None: compiled for the types of each first call.
        allocates: whether it allocates arrays; otherwise it counts no references, as `helper`.
    """

    def jitted(function: Function) -> Function:
        return _jitted(function, signature, nogil=True, _nrt=allocates)  # so that another thread can say how far it is

    return jitted


def helper(function: Function) -> Function:
    """A jitted function that only other jitted functions call and that allocates nothing.

    It counts no references to its arguments; counting takes atomic instructions, more than half of a kernel's run time.
    """
    return _jitted(function, None, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def pasted(function: Function) -> Function:
    """A helper whose source Numba puts into its callers before it types them: a phase of a loop, called from one place.

    It takes named tuples of many arrays for nothing, where passing an array takes seven words, and it may return
    records. Nothing of it is compiled by itself.
    """
    return _jitted(function, None, _nrt=False, inline="always")


def _jitted(function: Function, signature: Any, **options: Any) -> Function:
    own, CacheImpl._locator_classes = CacheImpl._locator_classes, [_Locator]  # Numba reads it while it decorates
    try:
        jitted: Function = numba.njit(signature, cache=True, error_model="numpy", **options)(function)
    finally:
        CacheImpl._locator_classes = own
    return jitted


class _Locator(_CacheLocator):
    """Where Numba keeps the machine code of one function: by the content of the sources, not by their place or age."""

    def __init__(self, function: Callable[..., Any], source: Path) -> None:
        self._py_file, self._line = str(source), function.__code__.co_firstlineno
        self._name = f"{source.parent.name}.{self._line}"
        self._directory = cache_directory(package_of(source))
        self._stamp = hashlib.sha256(source.read_bytes()).hexdigest()

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        """The locator of a function in a file."""
        return cls(py_func, Path(py_file).resolve())

    def get_cache_path(self) -> str:
        """The directory of the machine code of the function's package."""
        return self._directory

    def get_source_stamp(self) -> str:
        """What Numba compares before it loads machine code."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """What tells the function from others of its name, in files of the same name."""
        return self._name


def plain(function: Function) -> Function:
    """The Python function that was jitted."""
    found: Function = getattr(function, "py_func", function)
    return found


_compiling: Any = event.TimingListener()  # type: ignore[no-untyped-call]
event.register("numba:compile", _compiling)  # type: ignore[no-untyped-call]


def compile_seconds() -> float:
    """Seconds that this process has spent on compiling, none for what the cache had."""
    return float(_compiling.duration) if _compiling.done else 0.0
