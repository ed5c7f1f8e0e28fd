"""Public recipes: what one launches by name, read from the makers' files into data.

A file below `recipes/<framework>/` is a mapping of recipe names to records. One name may have several records, one a
release, because makers change what a name stands for. Files are long: only the records of a wanted name are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from windtunnel.data_files import ROOT, parse_yaml, read_yaml
from windtunnel.stacks.releases import NEWEST, Day, begins, release_date
from windtunnel.stacks.stack_files import lineage

_FOLDER = ROOT / "stacks/recipes"
_BLOCK = re.compile(r"^([\w.-]+):[^\n]*\n(?:(?![\w#])[^\n]*\n)*", re.M)
"""A name at the beginning of a line, and the lines that belong to it."""
_COMMIT = re.compile(r"^[0-9a-f]{7,40}$")


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
    same_as: str = ""
    """Another name of the same release that stands for the same."""


@cache
def recipes(framework: str) -> tuple[Recipe, ...]:
    """All recipes of a framework, by name, each name's oldest record first."""
    return tuple(recipe for name in sorted(_blocks(framework)) for recipe in _records(framework, name))


def recipe_named(name: str, framework: str = "", version: str = "") -> Recipe | None:
    """The recipe that a name stands for in a release: the last record that is not after it; None where there is none.

    Args:
        name: as the makers' launcher takes it; letters' case does not matter.
        framework: framework, as scenarios name it; empty: the first that has the name.
        version: release, container, date or commit; empty, or one without a known date: the newest.
    """
    for owner in lineage(framework) if framework else owners():
        if own := _records(owner, name):
            at = _day(owner, version)
            held = [recipe for recipe in own if begins(recipe.since) <= at]
            found = held[-1] if held else own[0]
            other = recipe_named(found.same_as, owner, found.since) if found.same_as else None
            return replace(other, name=found.name, since=found.since, source=found.source) if other else found
    return None


def recipe_asked(text: str, framework: str = "", version: str = "") -> Recipe | None:
    """The recipe that a scenario names, as NAME or NAME@RELEASE."""
    name, _, release = text.partition("@")
    return recipe_named(name, framework, release or version)


def recipe_names(framework: str = "") -> Iterator[str]:
    """Names of a framework's recipes, or of all, without repeats."""
    for owner in [framework] if framework else owners():
        yield from (name for name, _ in _blocks(owner).values())


@cache
def owners() -> tuple[str, ...]:
    """Frameworks with recipes."""
    return tuple(sorted(path.name for path in _FOLDER.iterdir() if path.is_dir())) if _FOLDER.is_dir() else ()


@cache
def commits(framework: str) -> dict[str, str]:
    """First twelve letters of a commit → its date."""
    path = _FOLDER / framework / "commits.yaml"
    return read_yaml(f"stacks/recipes/{framework}/commits.yaml") if path.is_file() else {}


def commit_date(framework: str, version: str) -> str | None:
    """The date of a commit, at least seven letters of it; None where it is not known."""
    if not _COMMIT.match(version):
        return None
    return next((str(day) for commit, day in commits(framework).items() if commit.startswith(version[:12])), None)


def _day(framework: str, version: str) -> Day:
    dated = commit_date(framework, version)
    return begins(dated) if dated else (release_date(framework, version) or NEWEST)


def _records(framework: str, name: str) -> tuple[Recipe, ...]:
    """All that a name has stood for, the oldest first."""
    _, text = _blocks(framework).get(name.casefold(), ("", ""))
    if not text:
        return ()
    [(own, records)] = parse_yaml(text).items()
    listed = records if isinstance(records, list) else [records]
    found = [Recipe(name=own, framework=framework, **record) for record in listed]
    return tuple(sorted(found, key=lambda recipe: begins(recipe.since)))


@cache
def _blocks(framework: str) -> dict[str, tuple[str, str]]:
    """Name in lower case → the name and the text of its records."""
    folder = _FOLDER / framework
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(folder.glob("*.yaml")) if folder.is_dir() else ():
        if path.name != "commits.yaml":
            for block in _BLOCK.finditer(path.read_text("utf-8")):
                found[block[1].casefold()] = (block[1], block[0])
    return found
