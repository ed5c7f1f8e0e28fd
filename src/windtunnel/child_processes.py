"""What processes that we start owe the one that started them."""

from __future__ import annotations

import os
import signal


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent dies (Linux); elsewhere the closed end of a pipe does it.

    Args:
        parent: Process that started this one.
    """
    import ctypes

    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError, TypeError):
        return
    if os.getppid() != parent:
        os._exit(1)
