"""What claims of learning share: a small task trained with several algorithms, and its losses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from windtunnel import api
from windtunnel.learning.results import LearningResult
from windtunnel_lab.reproduce.settings import Values

_SECTION = ("task", "workers", "batch", "steps", "lr", "inner", "seeds")


@lru_cache(maxsize=256)
def _learned(text: str) -> LearningResult:
    return api.simulate_learning({"learning": json.loads(text)})


def learned(section: Mapping[str, Any]) -> LearningResult:
    """A learning section run without the gate; equal sections run once."""
    return _learned(json.dumps({"gate": False, **section}, sort_keys=True))


def proxy(setting: Values, values: Values, algorithms: Sequence[Any], **more: Any) -> dict[str, Any]:
    """The learning section of a paper's small task.

    Args:
        setting: Of the paper; `fixed` values named as fields of the section are taken.
        values: Open values; those named as fields of the section go first.
        algorithms: Ids, or ids with knobs.
        more: Other fields of the section.
    """
    fixed = {name: item["value"] for name, item in setting["fixed"].items() if name in _SECTION}
    chosen = {name: value for name, value in values.items() if name in _SECTION}
    return {**fixed, **chosen, "algorithms": list(algorithms), **more}


def losses(section: Mapping[str, Any]) -> list[float]:
    """Mean loss at the end of each algorithm, in their order; infinite where every seed diverged."""
    return [float("inf") if a.loss is None else a.loss for a in learned(section).algorithms]


def loss_on_the_way(section: Mapping[str, Any], left: float) -> float:
    """The loss at which so large a share of the way from the floor to the first loss is left, of any algorithm."""
    found = learned({**section, "steps": 1, "seeds": 1, "algorithms": ["fedavg-sync"], "evaluate_every": 1})
    floor = found.floor or 0.0
    return floor + left * (float(found.curves[0].loss[0]) - floor)


def loss_ratio(section: Mapping[str, Any]) -> float:
    """Loss of the first algorithm over that of the second."""
    first, second = losses(section)
    return first / second


def least_rise(values: Sequence[float]) -> float:
    """Smallest ratio of a value to the one before: above 1 where the values rise all the way."""
    return min(after / before for before, after in pairwise(values))
