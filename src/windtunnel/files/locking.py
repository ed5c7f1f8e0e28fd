"""A lock that one process has on a file, on every system."""

from __future__ import annotations

import os
import sys
from typing import IO, Any

BYTE = 1 << 30
"""Byte that is locked on Windows, behind all content: a locked byte cannot be read there."""


def lock_alone(stream: IO[Any]) -> None:
    """Lock a file for this process until it is closed.

    Raises:
        OSError: another process has it.
    """
    if sys.platform == "win32":
        import msvcrt

        os.lseek(stream.fileno(), BYTE, os.SEEK_SET)
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        os.lseek(stream.fileno(), 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
