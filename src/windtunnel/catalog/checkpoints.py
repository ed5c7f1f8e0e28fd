"""Formats of weights that a model's checkpoint is released in, by the checkpoint's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from windtunnel.catalog import released_models
from windtunnel.catalog.store import MOST_OF_A_NAME
from windtunnel.data_files import read_yaml
from windtunnel.stacks.weight_formats import WEIGHTS, format_named, in_field


@dataclass(frozen=True, slots=True)
class ReleasedFormat:
    """What the weights of a checkpoint are stored in."""

    formats: Mapping[str, str]
    """Fields of `serving.precision`: `weights`, and `experts` where they differ."""
    why: str
    """Where that is stated."""


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = read_yaml("catalog/checkpoint_formats.yaml")
    return found


def named_format(name: str, field: str = WEIGHTS) -> tuple[str, str | None]:
    """A checkpoint's name without the end of it that says its format, and that format; None where it has none.

    Args:
        name: of the checkpoint.
        field: of a scenario, as which calls the format.
    """
    found = _ending().search(name) if len(name) <= MOST_OF_A_NAME else None
    if found is None:
        return name, None
    words = found[0].lower().replace("_", "-")
    word = next((part for part in _table()["parts"] if part in words), "")
    return name[: found.start()], in_field(format_named(word, "names of checkpoints"), field)


@cache
def _ending() -> re.Pattern[str]:
    table = _table()
    longest_first = sorted((*table["parts"], *table["with"]), key=len, reverse=True)
    words = "|".join(re.escape(word).replace(r"\-", "[-_]") for word in longest_first)
    return re.compile(rf"(?:[-_.:](?:{words}))+/?$", re.IGNORECASE)


def listed_format(name: str) -> ReleasedFormat | None:
    """What a checkpoint is released in that does not say so in its name; None where none is listed."""
    if len(name) > MOST_OF_A_NAME:
        return None
    if (own := released_models.formats(name)) is not None:
        return ReleasedFormat(own[0], f"not stated; as the checkpoint's configuration says: {own[1]}")
    plain, table = name.lower().replace("_", "-").replace(" ", "-"), _table()["released"]
    keys = [key for key in table if key in plain]
    if not keys:
        return None
    entry = table[max(keys, key=len)]
    return ReleasedFormat(dict(entry["formats"]), f"not stated; as the checkpoint is released: {entry['source']}")


def released_format(*names: str) -> ReleasedFormat | None:
    """What a checkpoint is released in, by the first of its names that tells; None: 16 bits.

    Args:
        names: how the scenario spells the model, and its name in the catalogue.
    """
    for name in names:
        if released_models.formats(name) is not None:
            return listed_format(name)
        base, said = named_format(name)
        exact = listed_format(name) if said is not None else None
        if exact is not None and exact != listed_format(base):  # an entry of its own, not that of the base
            return exact
        if said is not None:
            return ReleasedFormat({"weights": said}, f"not stated; the checkpoint's name {name} says it")
        if (found := listed_format(name)) is not None:
            return found
    return None
