"""What memory is left on this machine, and the refusal of what would need more.

Sizes that a user writes (requests, tokens, micro-batches, devices) become arrays. Whoever makes such an array asks here
first, so that the answer is a line about the field and not a machine without memory.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from windtunnel.errors import UNSET, BadInput, Problem

_GIB = float(1 << 30)
_ASKED = re.compile(r"Unable to allocate ([\d.]+ [KMGTPE]?i?B)")
"""NumPy's words for an array that there is no memory for."""


def free_bytes() -> float:
    """Bytes that this process may still take: what the machine, its container and the process's limits leave.

    Infinity where none of them can be read.
    """
    return min(_of_machine(), _of_container(), _of_process())


def require_bytes(nbytes: float, field: str, what: str, value: Any = UNSET) -> None:
    """Refuse to start on something for which there is no memory.

    Args:
        nbytes: bytes that it takes.
        field: what the user wrote that makes it so large.
        what: the thing, as the subject of a sentence ("the instructions of a step").
        value: the field's value.

    Raises:
        BadInput: less is free.
    """
    if nbytes < (1 << 26):  # never worth a look at the machine
        return
    free = free_bytes()
    if not nbytes <= free:
        raise BadInput(Problem(field, f"{what} would take {_words(nbytes)} of memory; {_words(free)} are free", value))


def refusal(error: MemoryError) -> str:
    """What to tell of an allocation that failed."""
    asked = _ASKED.search(str(error))
    size = f"{asked[1]} were asked for at once" if asked else "more was asked for"
    left = f"{_words(free_bytes())} are free on this machine"
    return f"out of memory: {size}, {left}; fewer requests, tokens, micro-batches, layers or candidates need less"


def _words(nbytes: float) -> str:
    return f"{nbytes / _GIB:,.1f} GiB"


def _of_machine() -> float:
    try:
        found = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text("ascii"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        found = None
    if found:
        return float(found[1]) * 1024.0
    try:
        import os

        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def _of_container(folder: Path = Path("/sys/fs/cgroup")) -> float:
    """What the control group (version 2) leaves; cached files count as free, since the kernel drops them first."""
    try:
        limit = (folder / "memory.max").read_text("ascii").strip()
        if limit == "max":
            return float("inf")
        used = float((folder / "memory.current").read_text("ascii"))
        cached = re.findall(r"^(?:in)?active_file (\d+)$", (folder / "memory.stat").read_text("ascii"), re.MULTILINE)
        return float(limit) - used + sum(map(float, cached))
    except (OSError, ValueError):
        return float("inf")


def _of_process() -> float:
    """What limits of the process leave (`ulimit -v`, `ulimit -d`)."""
    try:
        import resource

        sizes = Path("/proc/self/statm").read_text("ascii").split()
        page = resource.getpagesize()
    except (ImportError, OSError, UnicodeDecodeError):
        return float("inf")
    left = float("inf")
    for limit, pages in ((resource.RLIMIT_AS, sizes[0]), (resource.RLIMIT_DATA, sizes[5])):
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            left = min(left, max(most - int(pages) * page, 0))
    return left


def keep_to_free_memory() -> None:
    """Let allocations above what is free fail in this process at once, in place of filling the machine.

    Without a limit Linux hands out more than there is and ends a process, not always this one, when it is used.
    """
    try:
        import resource
    except ImportError:  # no such limits on this system
        return
    free = min(_of_machine(), _of_container())
    if free == float("inf"):
        return
    try:
        data = int(Path("/proc/self/statm").read_text("ascii").split()[5]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = int(data + free)
        if soft == resource.RLIM_INFINITY or soft > most:
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    except (OSError, ValueError):
        return
