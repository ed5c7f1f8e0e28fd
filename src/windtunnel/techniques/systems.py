"""Published systems of the research catalogue, read from their cards, and which of them are not built yet."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from windtunnel.systems import card, ids
from windtunnel.techniques import REGISTRY

FAMILIES = (
    "train-parallel",
    "overlap-net",
    "long-seq",
    "memory-offload",
    "moe",
    "low-comm",
    "compression",
    "fault-straggler",
    "serving",
    "decode-tts",
    "agents",
    "diffusion",
    "devices",
    "fl-edge",
    "cluster-plan",
    "rl-graph-data",
)
"""Families of the catalogue, in its order."""


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
    cards = [one for one in map(card, ids()) if one.tier]
    cards.sort(key=lambda one: (FAMILIES.index(one.family), one.tier, one.id))
    return tuple(System(one.id, one.family, one.name, one.tier, one.summary, one.title) for one in cards)


def system(id: str) -> System | None:
    """The system of an id, with hyphens or underscores; None where the catalogue has none."""
    return next((one for one in systems() if one.id == id.replace("_", "-")), None)


def planned() -> tuple[System, ...]:
    """Systems that are neither a technique nor have claims."""
    return tuple(one for one in systems() if one.id not in REGISTRY and not card(one.id).claims)
