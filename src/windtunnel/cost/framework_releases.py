"""Which release of a framework brought which default: `catalog/training_frameworks/defaults_by_release.yaml`.

A release is a number that the table dates, a container's name (24.07) or a date (2024, 2024-07, 2024-07-15); without a
release the newest defaults hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from windtunnel.cost.coefficient_files import lineage
from windtunnel.data_files import read_yaml

Day = tuple[int, int, int]
"""Year, month, day."""
NEWEST: Day = (9999, 12, 31)
_DATE = re.compile(r"^(20\d\d)(?:[-.](0[1-9]|1[0-2]))?(?:[-.]([0-3]\d))?$")
_CONTAINER = re.compile(r"^v?(2\d)\.(0[1-9]|1[0-2])(?:\.\d+)?$")
"""Year and month of NVIDIA's containers; the oldest frameworks here are of 2020."""
_NUMBER = re.compile(r"^v?(\d+(?:\.\d+)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDefault:
    """A default of a framework, the release that brought it and where that stands."""

    value: Any
    since: str
    """Year and month; empty where it holds from the beginning."""
    source: str


@cache
def release_table() -> dict[str, Any]:
    """Framework → `releases` (number → date) and `defaults` (field → rows, the oldest first), as in the file."""
    return dict(read_yaml("catalog/training_frameworks/defaults_by_release.yaml")["frameworks"])


def release_date(framework: str, version: str) -> Day | None:
    """When a release came out: its last possible day; None where the table cannot date it.

    Args:
        framework: software generation.
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
    known = next((r for name in lineage(framework) if (r := release_table().get(name, {}).get("releases"))), None)
    if numbered is None or known is None:
        return None
    wanted = tuple(int(part) for part in numbered[1].split("."))
    older = [(number, date) for name, date in known.items() if (number := _numbers(name)) <= wanted]
    return _day(max(older)[1], last=True) if older else None


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _day(text: Any, *, last: bool = False) -> Day:
    """A date of the table; a month stands for its first day, or its last."""
    year, month, *day = (int(part) for part in str(text).split("-"))
    return year, month, day[0] if day else (31 if last else 1)


def begins(since: Any) -> Day:
    """First day of a date as the tables write it."""
    return _day(since)


def defaults_at(framework: str, version: str = "", generation: str = "") -> dict[str, ReleaseDefault]:
    """Field of `Behaviour` → default that the framework's own rows give a release; rows it inherits are not among them.

    Args:
        framework: software generation.
        version: release; what cannot be dated counts as the newest.
        generation: generation of the device, may be empty.
    """
    at = release_date(framework, version) or NEWEST
    found: dict[str, ReleaseDefault] = {}
    for name, rows in release_table().get(framework, {}).get("defaults", {}).items():
        for row in rows:
            since, devices = row.get("since"), row.get("generations")
            if (since is None or _day(since) <= at) and (devices is None or generation in devices):
                found[name] = ReleaseDefault(value=row["value"], since=str(since or ""), source=row["source"])
    return found


def release_note(framework: str, version: str) -> str | None:
    """Why stating a release changes nothing, as the end of a sentence; None where it may."""
    if not any("since" in row for name in lineage(framework) for row in _rows(name)):
        return f"no default of {framework} is known to differ by release"
    if release_date(framework, version) is None:
        known = "release of it, container (24.07) or date that the catalogue knows"
        return f"{version} is no {known}: the newest defaults of {framework} hold"
    return None


def _rows(framework: str) -> list[dict[str, Any]]:
    return [row for rows in release_table().get(framework, {}).get("defaults", {}).values() for row in rows]
