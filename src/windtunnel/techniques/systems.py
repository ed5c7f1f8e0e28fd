"""Published systems of the research catalogue (`systems.yaml`), and which of them are not built yet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from windtunnel.techniques import REGISTRY

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class System:
    """One system."""

    id: str
    family: str
    name: str
    tier: str
    """A: its claim is a numeric test whose setting is known; B: a number whose setting is open; C: no number."""
    idea: str
    title: str
    """Title of its paper."""

    def record(self) -> dict[str, Any]:
        """Plain data, under the names that techniques use where they mean the same."""
        found = asdict(self)
        return {
            "id": found.pop("id"),
            "family": found.pop("family"),
            "status": "planned",
            "acts_on": [],
            "levels": [],
            "relieves": "",
            "summary": found.pop("idea"),
            "paper": found.pop("title"),
            **found,
        }


@lru_cache(maxsize=1)
def systems() -> tuple[System, ...]:
    """All of them, family by family."""
    data = yaml.load(files(__package__).joinpath("systems.yaml").read_text("utf-8"), _LOADER)
    return tuple(System(family=family, **one) for family, own in data["families"].items() for one in own)


def system(id: str) -> System | None:
    """The system of an id, with hyphens or underscores; None where the catalogue has none."""
    return next((one for one in systems() if one.id == id.replace("_", "-")), None)


def planned(built: Collection[str] = ()) -> tuple[System, ...]:
    """Systems that are neither a technique nor otherwise built.

    Args:
        built: further ids: papers whose experiment needs no technique of its own.
    """
    return tuple(one for one in systems() if one.id not in REGISTRY and one.id not in built)
