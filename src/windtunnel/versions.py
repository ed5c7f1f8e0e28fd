"""Versions of what files hold, and names that changed: an older one works for one more minor release, with a warning.

`RENAMED` is the one table of fields, options and ids that have another name now. Scenarios, settings, the command line
and registries read it; `windtunnel schema migrate` writes the newer names into a file.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SCENARIO_SCHEMA = 1
"""`schema_version` of scenarios; absent in a file: this one."""
RESULT_SCHEMA = 1
"""`schema_version` of results: a higher one where a key was renamed or means something else. Results without one are of
releases before 0.2."""
RESULT_CHANGES = {1: "results carry `schema_version`"}
"""`schema_version` of results → what changed with it."""


class OlderName(FutureWarning):
    """An older name was used, which a later release no longer knows."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A name that changed."""

    kind: str
    """`field`, `option`, `name` (of Python), or the registry whose id it is (`techniques`, `engines`, …)."""
    old: str
    """Dotted path of a field, with `*` for an entry of a list; `train --old`; `windtunnel.api.old`; an id."""
    new: str
    """In the same section as the old one, at the same command, in the same module, in the same registry."""
    ends: str
    """First release that no longer knows the old name."""


RENAMED: list[Renamed] = []
"""All that changed in this minor release and the one before."""
_WARNED: set[Renamed] = set()


def renamed(kind: str) -> Iterator[Renamed]:
    """What changed among names of one kind."""
    return (one for one in RENAMED if one.kind == kind)


def warn(one: Renamed) -> None:
    """Warn of an older name, once in a process."""
    if one in _WARNED:
        return
    _WARNED.add(one)
    what = "id" if one.kind not in ("field", "option", "name") else one.kind
    text = f"the {what} '{one.old}' is called '{one.new}' now; the older name works until release {one.ends}"
    warnings.warn(text, OlderName, stacklevel=3)


def current_id(kind: str, id: str) -> str:
    """The id of a registry's entry that had another one before."""
    for one in renamed(kind):
        if one.old == id:
            warn(one)
            return one.new
    return id


def current_name(module: str, name: str) -> str:
    """The name in a module of Python that had another one before."""
    for one in renamed("name"):
        if one.old == f"{module}.{name}":
            warn(one)
            return one.new.rpartition(".")[2]
    return name


def current_words(words: list[str]) -> list[str]:
    """Words of a command line with options under their present names."""
    out = list(words)
    for one in renamed("option"):
        command, _, option = one.old.rpartition(" ")
        if out[: len(command.split())] != command.split():
            continue
        for at, word in enumerate(out):
            if word == option or word.startswith(f"{option}="):
                out[at] = one.new.rpartition(" ")[2] + word[len(option) :]
                warn(one)
    return out


def current_path(path: str) -> str:
    """The dotted path of a field under its present name."""
    for one in renamed("field"):
        parts, old = path.split("."), one.old.split(".")
        same = len(parts) >= len(old) and all(b in (a, "*") for a, b in zip(parts, old, strict=False))
        if same:
            warn(one)
            parts[len(old) - 1] = one.new.split(".")[-1]
            path = ".".join(parts)
    return path


def older_fields(data: dict[str, Any]) -> Iterator[tuple[Renamed, str, dict[str, Any]]]:
    """Fields under older names: the rename, the dotted path as it stands, and the mapping that holds it."""
    for one in renamed("field"):
        *parents, last = one.old.split(".")
        for path, place in _places(data, parents, ""):
            if last in place:
                yield one, f"{path}.{last}".strip("."), place


def _places(value: Any, parents: list[str], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Mappings at a dotted path with `*`."""
    if not parents:
        if isinstance(value, dict):
            yield path, value
        return
    first, *rest = parents
    if first == "*" and isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _places(inner, rest, f"{path}.{at}".strip("."))
    elif isinstance(value, dict) and first in value:
        yield from _places(value[first], rest, f"{path}.{first}".strip("."))
