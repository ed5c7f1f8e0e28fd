"""Dates of releases.

A release is a number that a framework's file dates, a container's name (24.07) or a date (2024, 2024-07, 2024-07-15).
Without a release the newest one holds.
"""

from __future__ import annotations

import re
from typing import Any

from windtunnel.stacks.stack_files import lineage, stack_file

Day = tuple[int, int, int]
"""Year, month, day."""
NEWEST: Day = (9999, 12, 31)
_DATE = re.compile(r"^(20\d\d)(?:[-.](0[1-9]|1[0-2]))?(?:[-.]([0-3]\d))?$")
_CONTAINER = re.compile(r"^v?(2\d)\.(0[1-9]|1[0-2])(?:\.\d+)?$")
"""Year and month of NVIDIA's containers; the oldest frameworks here are of 2020."""
_NUMBER = re.compile(r"^v?(\d+(?:\.\d+)*)")


def release_date(framework: str, version: str) -> Day | None:
    """When a release came out: its last possible day; None where the framework's file cannot date it.

    Args:
        framework: framework, as scenarios name it.
        version: release as a scenario states it; empty means the newest.
    """
    text = version.strip()
    if not text:
        return NEWEST
    if dated := _DATE.match(text):
        month = int(dated[2] or 6)  # a year alone: its middle
        return int(dated[1]), month, int(dated[3] or 31)
    if container := _CONTAINER.match(text):
        return 2000 + int(container[1]), int(container[2]), 31
    numbered = _NUMBER.match(text)
    known = releases(framework)
    if numbered is None or not known:
        return None
    wanted = numbers(numbered[1])
    older = [(number, date) for name, date in known.items() if (number := numbers(name)) <= wanted]
    return _day(max(older)[1], last=True) if older else None


def releases(framework: str) -> dict[str, str]:
    """Number → date of the framework's releases, or of those of what it inherits from, as in the file."""
    tables = (stack_file(name).get("releases") for name in lineage(framework))
    found: dict[Any, Any] = next(filter(None, tables), {})
    return {str(number): str(date) for number, date in found.items()}


def begins(since: Any) -> Day:
    """First day of a date as the files write it."""
    return _day(since)


def numbers(release: str) -> tuple[int, ...]:
    """Parts of a release's number."""
    return tuple(int(part) for part in release.split("."))


def _day(text: Any, *, last: bool = False) -> Day:
    """A date of a file; a month stands for its first day, or its last."""
    year, month, *day = (int(part) for part in str(text).split("-"))
    return year, month, day[0] if day else (31 if last else 1)
