"""One thread for linear algebra: a run uses one core, and its bits do not depend on how many a machine has.

OpenBLAS divides a product over threads, which changes where it rounds. Runs side by side use the other cores.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_PREFIXES = ("scipy_openblas", "openblas")
_SUFFIXES = ("64_", "")


@contextmanager
def one_thread() -> Iterator[bool]:
    """Products inside run on one thread; True where the library of this NumPy could be set so.

    NumPy's wheels carry an OpenBLAS that can; with another library set `OMP_NUM_THREADS=1` before the start.
    """
    found = _openblas()
    if found is None:
        yield False
        return
    get, set_to = found
    before = get()
    set_to(1)
    try:
        yield True
    finally:
        set_to(before)


@cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Functions that get and set the threads of the OpenBLAS inside NumPy's wheel."""
    import numpy as np

    package = Path(np.__file__).parent
    folders = (package.parent / "numpy.libs", package / ".dylibs")
    for path in sorted(path for folder in folders if folder.is_dir() for path in folder.glob("*openblas*")):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                get = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                set_to = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
                if get is not None and set_to is not None:
                    return get, set_to
    return None
