"""Public recipes: what one launches by name, read from the makers' files into data.

A file below `recipes/<framework>/` is a mapping of recipe names to records. One name may have several records, one a
release, because makers change what a name stands for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from windtunnel.data_files import ROOT, read_yaml
from windtunnel.stacks.releases import NEWEST, begins, release_date
from windtunnel.stacks.stack_files import lineage


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One recipe as one release has it. Sections are those of a scenario and hold what the recipe states, no more."""

    name: str
    framework: str
    since: str
    """Release, date or commit's date from which on the name stands for this."""
    source: str
    """Repository, file and commit."""
    model: str | dict[str, Any] = ""
    """Catalogue id, or the fields of a model that the catalogue has not; empty where the launch names it."""
    device: str = ""
    """Catalogue id of the device that it was made for; empty: any."""
    devices: int = 0
    """Number of devices that it was made for; 0: any."""
    devices_per_node: int = 8
    """Devices that one host launches (4 on GB200 and GB300)."""
    training: dict[str, Any] = field(default_factory=dict)
    """Fields of `training:` (seq_len, global_batch, precision, phase, cuda_graphs, moe_dispatcher, …)."""
    plan: dict[str, Any] = field(default_factory=dict)
    """Fields of `plan:` (tp, pp, vpp, cp, ep, etp, mbs, zero, recompute, offload, overlap, …)."""
    environment: dict[str, str] = field(default_factory=dict)
    """Environment variables that the makers' launcher sets."""


@cache
def recipes(framework: str) -> tuple[Recipe, ...]:
    """All recipes of a framework, by name, each name's oldest record first."""
    folder = ROOT / "stacks/recipes" / framework
    found = [
        Recipe(name=name, framework=framework, **record)
        for path in (sorted(folder.glob("*.yaml")) if folder.is_dir() else ())
        for name, records in (read_yaml(f"stacks/recipes/{framework}/{path.name}") or {}).items()
        for record in (records if isinstance(records, list) else [records])
    ]
    return tuple(sorted(found, key=lambda recipe: (recipe.name, begins(recipe.since))))


def recipe_named(name: str, framework: str = "", version: str = "") -> Recipe | None:
    """The recipe that a name stands for in a release: the last record that is not after it; None where there is none.

    Args:
        name: as the makers' launcher takes it; letters' case does not matter.
        framework: framework, as scenarios name it; empty: the first that has the name.
        version: release; empty means the newest.
    """
    for owner in lineage(framework) if framework else owners():
        own = [recipe for recipe in recipes(owner) if recipe.name.casefold() == name.casefold()]
        at = release_date(owner, version) or NEWEST
        if held := [recipe for recipe in own if begins(recipe.since) <= at]:
            return held[-1]
        if own:
            return own[0]
    return None


def recipe_asked(text: str, framework: str = "", version: str = "") -> Recipe | None:
    """The recipe that a scenario names, as NAME or NAME@RELEASE."""
    name, _, release = text.partition("@")
    return recipe_named(name, framework, release or version)


def recipe_names(framework: str = "") -> Iterator[str]:
    """Names of a framework's recipes, or of all, without repeats."""
    for owner in [framework] if framework else owners():
        yield from dict.fromkeys(recipe.name for recipe in recipes(owner))


@cache
def owners() -> tuple[str, ...]:
    """Frameworks with recipes."""
    folder = ROOT / "stacks/recipes"
    return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir())) if folder.is_dir() else ()
