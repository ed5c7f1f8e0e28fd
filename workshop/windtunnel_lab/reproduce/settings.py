"""The `claims.yaml` of a paper: what it acts on, its settings, and its claims as data.

It holds `fixed` values, `open` ones (low, central, high, fixed by rule before the first run) and `claims`; a claim
names the published figure, its source and the rule that decides. `acts_on` says what the paper is about: training,
serving, whole runs (run), jobs on a cluster (cluster), algorithms that learn (learning) or scaling laws and test-time
compute (laws).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from windtunnel.systems import card

Values = dict[str, Any]


@lru_cache(maxsize=16)
def load(package: str) -> Values:
    """The `claims.yaml` next to an experiment, with its `paper` (title, year, link) from the card of its `system`."""
    loaded: Values = yaml.safe_load(files(package).joinpath("claims.yaml").read_text(encoding="utf-8"))
    paper = card(loaded["system"])
    return loaded | {"paper": {"title": paper.title, "year": paper.year, "link": paper.link}}


def central(setting: Values) -> Values:
    """Central values of what the paper leaves open."""
    return {name: item["central"] for name, item in setting["open"].items()}


def variants(setting: Values, names: Sequence[str] | None = None) -> list[Values]:
    """One setting at a time at its low and its high end; `names` are those that a claim depends on, absent: all."""
    chosen = setting["open"] if names is None else names
    return [
        central(setting) | {name: setting["open"][name][end]}
        for name in chosen
        for end in ("low", "high")
        if setting["open"][name][end] != setting["open"][name]["central"]
    ]
