"""Errors of single plans that differ by as much as measured pairs of plans differ.

`plan_difference` compares two plans by the spread of the difference between the errors of measured pairs. A draw of one
plan alone needs the errors themselves: a part that all plans of a group share, and a part of its own. The own part is
a sum of normal numbers, one of the whole plan and one of each of its settings, so that plans with more settings in
common are off by more alike. With variances a of the plan and b of a setting, the errors of two plans that are k
settings apart differ with variance 2 (a + k b): a and b are fitted to the spreads of k from 1 to 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from windtunnel.training.results.records import Interval
from windtunnel.training.uncertainty.comparable_runs import Subject, distances
from windtunnel.training.uncertainty.plan_difference import (
    MOST_APART,
    measured_pairs,
    settings_of,
    spread,
    weighted_band,
)
from windtunnel.training.uncertainty.step_time_interval import LEVEL

_QUANTILE = 1.2816
"""Normal deviate of the 90th percentile."""
SETTINGS = ("tp", "pp", "vpp", "cp", "ep", "dp", "mbs", "gbs", "zero", "recompute")
"""Settings that a plan has whether it names them or not; one that is not named has the value of not being used."""


@dataclass(frozen=True, slots=True)
class OwnError:
    """Variances of the logarithm of a step time that plans of one group do not share."""

    plan: float
    """Of the whole plan."""
    setting: float
    """Of each of its settings."""

    def difference(self, apart: int) -> float:
        """Standard deviation of the difference between two plans that are `apart` settings apart."""
        return math.sqrt(2.0 * (self.plan + apart * self.setting))


@lru_cache(maxsize=4096)
def own_error(subject: Subject) -> OwnError | None:
    """What a plan does not share with others of its group; None where no other group has measured pairs.

    Args:
        subject: The plan's run.
    """
    wanted = []
    for apart in range(1, MOST_APART + 1):
        other = replace(subject, plan=" ".join([subject.plan, *(f"other{letter}1" for letter in "abcdef"[:apart])]))
        found = spread(subject, other, measured_pairs(), distances())
        if found is None:
            return None
        low, high = weighted_band(*found[:3], LEVEL)
        wanted.append((0.5 * (high - low) / _QUANTILE) ** 2)
    return _fitted(np.array(wanted))


def _fitted(variances: np.ndarray) -> OwnError:
    """Plan and setting variances, both 0 or more, with the least relative squared error."""
    apart = np.arange(1, len(variances) + 1)
    terms = 2.0 * np.stack([np.ones(len(variances)), apart], axis=1) / variances[:, None]
    ones = np.ones(len(variances))
    both, *_ = np.linalg.lstsq(terms, ones, rcond=None)
    if (both >= 0.0).all():
        return OwnError(float(both[0]), float(both[1]))
    alone = [max(float(column @ ones / (column @ column)), 0.0) for column in terms.T]
    candidates = [OwnError(alone[0], 0.0), OwnError(0.0, alone[1])]
    return min(candidates, key=lambda c: float(((terms @ [c.plan, c.setting] - ones) ** 2).sum()))


def drawn_error(subject: Subject | None, seconds: float, interval: Interval, normal: Callable[[str], float]) -> float:
    """Factor on a predicted step time: one draw from its interval, correlated with the draws of other plans.

    The interval of the step time is kept as it is. Of its variance, the own part has what `own_error` says, all of it
    at most; the rest is one number that plans of a group share. Plans of two groups (another model, cluster, software
    or sequence length) share nothing, as `paired_difference` takes them.

    Args:
        subject: The plan's run; None: it is comparable with no other.
        seconds: Predicted step time.
        interval: Its interval.
        normal: Standard normal number of a text, the same for every plan of one draw.
    """
    low, high = math.log(interval.low / seconds), math.log(interval.high / seconds)
    whole = (0.5 * (high - low) / _QUANTILE) ** 2
    own = None if subject is None else own_error(subject)
    if subject is None or own is None or whole <= 0.0:
        deviate = normal(f"alone {subject}")
    else:
        group = f"{subject.software} {subject.signature} {subject.seq_len}"
        settings = dict.fromkeys(SETTINGS, "") | settings_of(subject) | {"precision": subject.precision}
        parts = [math.sqrt(own.plan) * normal(f"{group} plan {sorted(settings.items())}")]
        parts += [math.sqrt(own.setting) * normal(f"{group} {name} {value}") for name, value in settings.items()]
        share = own.plan + len(settings) * own.setting
        kept = min(1.0, whole / share) if share > 0.0 else 1.0
        rest = max(whole - share, 0.0)
        deviate = (math.sqrt(kept) * sum(parts) + math.sqrt(rest) * normal(f"{group} shared")) / math.sqrt(whole)
    return math.exp(deviate * (high if deviate > 0 else -low) / _QUANTILE)
