"""Jitted functions and the one cache of their machine code.

Numba's own cache looks at the file that a function stands in and not at the files of the functions that it calls, so an
edit of a helper would leave the callers' old machine code in use. Here all jitted functions of the package share one
directory whose name carries a hash of all files that hold any, and of the versions that compile them: after an edit, or
with another Python or Numba, it is another directory.

Importing this module imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import config, event

from windtunnel.kernel_cache import cache_directory

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(signature: Any = None) -> Callable[[Function], Function]:
    """A decorator for a jitted function that Python calls, or that allocates arrays.

    Args:
        signature: Numba types to compile for at import; None: compiled for the types of each first call.
    """

    def jitted(function: Function) -> Function:
        return _jitted(function, signature, nogil=True)  # so that another thread can say how far it is

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


_compiling: Any = event.TimingListener()  # type: ignore[no-untyped-call]
event.register("numba:compile", _compiling)  # type: ignore[no-untyped-call]


def compile_seconds() -> float:
    """Seconds that this process has spent on compiling, none for what the cache had."""
    return float(_compiling.duration) if _compiling.done else 0.0
