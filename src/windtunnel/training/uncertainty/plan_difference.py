"""Probability that one plan is faster than another, from measured pairs of plans that were predicted unseen.

Two runs of one model on one cluster with one software share the prediction's errors about all three, so their
difference is evaluated by differences: log(predicted/measured) of one run minus that of the other, over pairs of
measured configurations that share (model, cluster, software). A pair's weight depends on the distance of its group
from the one in question (`step_time_interval`) and on the number of settings in which its plans differ; each group
counts once, however many pairs it has. Runs that differ in one more thing than their plans (device, number of devices,
model, sequence length, software) share what they have in common: they are compared by measured pairs that differ in
that thing too. Runs that differ in two or more are compared thing by thing, and the spreads are added in quadrature;
where that is wider, or nothing was measured, the intervals of both step times count as independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.training.results.records import Interval
from windtunnel.training.uncertainty.comparable_runs import Residual, Subject, distances, residuals
from windtunnel.training.uncertainty.step_time_interval import LEVEL, Table, distance, table_of

PLAN = "plan"
WORDS = {
    "device": "the device",
    "devices": "the number of devices",
    "model": "the model",
    "seq_len": "the sequence length",
    "software": "the software",
}
"""What two runs may differ in beside their plans, in words."""

_ENOUGH = 16.0
"""Least effective number of groups that a paired interval rests on."""
MOST_APART = 6
"""Largest number of differing settings that is distinguished; more count as this many."""
_QUANTILE = 1.2816
"""Normal deviate of the 90th percentile: half-width of an 80 % interval in standard deviations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Plan B compared with plan A: the ratio of their step times, its band, and the probability that A is faster."""

    ratio: float
    """Predicted step time of B over that of A."""
    low: float
    high: float
    level: float
    probability_a_faster: float
    told_apart: bool
    """Whether the interval of the ratio excludes 1."""
    pairs: int
    """Measured pairs that take part, 0 without a common (model, cluster, software)."""
    basis: str
    grade: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Measured pairs, shape (n,)."""

    table: Table
    """Residuals out of fold."""
    first: Ints
    """Index of a pair's first configuration in `table`; its group is the pair's."""
    second: Ints
    """Index of a pair's second configuration in `table`."""
    error: Floats
    """log(predicted/measured) of the first minus that of the second."""
    settings: Floats
    """Number of settings in which the two plans differ."""
    group: Ints
    """Index of the pair's group."""
    share: Floats
    """1 / (pairs of the group)."""
    kind: str = PLAN
    """What the two runs of a pair differ in: their plans alone, or also an entry of `WORDS`."""


def differing(a: Subject, b: Subject) -> tuple[str, ...]:
    """Entries of `WORDS` in which two runs differ; empty where their plans alone may."""
    one, other = _shared(a), _shared(b)
    return tuple(name for name in WORDS if one[name] != other[name])


def _shared(subject: Subject) -> dict[str, str | int]:
    """What measured pairs have in common, by the names of `WORDS`."""
    return {
        "device": subject.device,
        "devices": subject.devices,
        "model": subject.signature.partition("|")[0],
        "seq_len": subject.seq_len,
        "software": subject.software,
    }


def settings_apart(a: Subject, b: Subject) -> int:
    """Number of settings in which two plans differ; precision counts as one."""
    one, other = settings_of(a), settings_of(b)
    differing = sum(one.get(k) != other.get(k) for k in one.keys() | other.keys())
    return min(differing + (a.precision != b.precision), MOST_APART)


def settings_of(subject: Subject) -> dict[str, str]:
    """Settings of a plan by name, those that it names."""
    return dict(_word(word) for word in subject.plan.split())


def _word(word: str) -> tuple[str, str]:
    """Split a word of a plan into setting and value: `tp4` → (tp, 4); `full` → (recompute, full)."""
    name = word.rstrip("0123456789")
    return (name, word[len(name) :]) if name != word else ("recompute", word)


def pairs_of(members: Sequence[Residual], kind: str = PLAN) -> Pairs:
    """All pairs of configurations that differ in `kind`: their plans alone, or also an entry of `WORDS`."""
    table = table_of(members, "fold")
    shared = [_shared(r.subject) for r in table.members]
    groups: dict[tuple[str | int, ...], list[int]] = {}
    for i, known in enumerate(shared):
        groups.setdefault(tuple(value for name, value in known.items() if name != kind), []).append(i)
    first, second, error, settings, group = [], [], [], [], []
    for index, inside in enumerate(groups.values()):
        for i, a in enumerate(inside):
            for b in inside[:i]:
                if kind != PLAN and shared[a][kind] == shared[b][kind]:
                    continue
                first.append(a)
                second.append(b)
                error.append(table.errors[a] - table.errors[b])
                settings.append(settings_apart(table.members[a].subject, table.members[b].subject))
                group.append(index)
    number = np.array(group, dtype=np.int64)
    count = np.bincount(number) if group else np.ones(1, dtype=np.int64)
    share = 1.0 / count[number] if group else np.empty(0)
    return Pairs(
        table=table,
        first=np.array(first, dtype=np.int64),
        second=np.array(second, dtype=np.int64),
        error=np.array(error),
        settings=np.array(settings, dtype=np.float64),
        group=number,
        share=share,
        kind=kind,
    )


@cache
def measured_pairs(kind: str = PLAN) -> Pairs:
    """All pairs of the residuals in the catalogue that differ in `kind`."""
    return pairs_of(residuals(), kind)


def spread(
    a: Subject, b: Subject, pairs: Pairs, apart: dict[str, float]
) -> tuple[Floats, Floats, float, list[str]] | None:
    """Errors of measured pairs in both orders, their weights (sum 1), effective groups, and families by weight.

    Pairs with a run of a group in question are left out. None where no other group has pairs.
    """
    own = np.isin(pairs.table.words["signature"], (a.signature, b.signature))
    used = ~(own[pairs.first] | own[pairs.second]) if len(pairs.first) else np.zeros(0, dtype=bool)
    if not used.any():
        return None
    away = _away(a, b, pairs, apart)[used]
    away = away + apart.get("settings", 0.0) * np.abs(pairs.settings[used] - settings_apart(a, b))
    group, share = pairs.group[used], pairs.share[used]
    wanted = min(_ENOUGH, 0.8 * len(np.unique(group)))
    stretch = 1.0
    while True:
        weights = np.exp(-(away - away.min()) / stretch) * share
        counted = np.bincount(group, weights)
        effective = float(counted.sum() ** 2 / (counted**2).sum())
        if effective >= wanted or stretch > 1e3:
            break
        stretch *= 1.25
    weights = weights / weights.sum()
    by: dict[str, float] = {}
    for i, w in zip(pairs.first[used], weights, strict=True):
        family = pairs.table.members[int(i)].family
        by[family] = by.get(family, 0.0) + float(w)
    errors = pairs.error[used]
    both, half = np.concatenate([errors, -errors]), np.concatenate([weights, weights]) / 2
    return both, half, effective, sorted(by, key=lambda k: -by[k])[:3]


def _away(a: Subject, b: Subject, pairs: Pairs, apart: dict[str, float]) -> Floats:
    """Distance of each pair from (a, b), whichever of its runs is like `a`; shape (n,)."""
    to_a = distance(a, pairs.table, apart)
    if pairs.kind == PLAN:  # what distances look at is the same on both sides
        return to_a[pairs.first]
    to_b = distance(b, pairs.table, apart)
    return np.minimum(to_a[pairs.first] + to_b[pairs.second], to_a[pairs.second] + to_b[pairs.first]) / 2


def weighted_band(errors: Floats, weights: Floats, effective: float, level: float) -> tuple[float, float]:
    """Central quantiles at the level that `effective` draws need to cover a share `level` of new draws."""
    inside = min(0.98, level * (effective + 1.0) / effective)
    order = np.argsort(errors)
    sums = np.cumsum(weights[order])
    at = (sums - 0.5 * weights[order]) / sums[-1]
    low, high = np.interp([(1 - inside) / 2, (1 + inside) / 2], at, errors[order])
    return float(low), float(high)


def below(errors: Floats, weights: Floats, effective: float, value: float) -> float:
    """Probability that an error is below a value, limited by the effective number of groups."""
    share = float(weights[errors < value].sum() + 0.5 * weights[errors == value].sum())
    return (share * effective + 0.5) / (effective + 1.0)


def paired_difference(
    a: Subject, b: Subject, seconds_a: float, seconds_b: float, interval_a: Interval, interval_b: Interval
) -> PairedDifference:
    """Probability that A is faster than B, and the interval of the ratio of their step times (B over A).

    Args:
        a: One run.
        b: The other run.
        seconds_a: Predicted step time of A.
        seconds_b: Predicted step time of B.
        interval_a: Interval of the step time of A.
        interval_b: Interval of the step time of B.
    """
    ratio = seconds_b / seconds_a
    apart = differing(a, b)
    kind = apart[0] if apart else PLAN
    found = spread(a, b, measured_pairs(kind), distances()) if len(apart) < 2 else None
    if a == b:
        return PairedDifference(
            ratio=ratio,
            low=ratio,
            high=ratio,
            level=LEVEL,
            probability_a_faster=0.5,
            told_apart=False,
            pairs=0,
            basis="one plan",
            grade="fitted",
            verdict="the same plan",
        )
    if found is None:
        alone = (math.log(seconds_b / interval_b.low), math.log(interval_b.high / seconds_b))
        other = (math.log(interval_a.high / seconds_a), math.log(seconds_a / interval_a.low))
        independent = math.hypot(alone[0], other[0]), math.hypot(alone[1], other[1])
        chained = _chained(a, b, apart) if len(apart) > 1 else None
        return _of_several(ratio, independent, chained, apart, (interval_a, interval_b))
    errors, weights, effective, families = found
    low, high = weighted_band(errors, weights, effective, LEVEL)
    chance = below(errors, weights, effective, math.log(ratio))
    what = "plans" if kind == PLAN else f"runs that differ in {WORDS[kind]}"
    basis = f"{len(errors) // 2} measured pairs of {what}, {effective:.0f} effective groups: {', '.join(families)}"
    edges = ratio * math.exp(low), ratio * math.exp(high)
    return _difference(ratio, edges, chance, len(errors) // 2, basis, "fitted")


def _chained(a: Subject, b: Subject, apart: tuple[str, ...]) -> tuple[float, float] | None:
    """How far below and above the ratio's logarithm an interval of chained comparisons reaches.

    From A to B one thing after another changes; each step has the spread of measured pairs that differ in it. None
    where a step has no measured pairs.
    """
    bands = []
    for kind in apart:
        found = spread(a, b, measured_pairs(kind), distances())
        if found is None:
            return None
        bands.append(weighted_band(*found[:3], LEVEL))
    return math.hypot(*(low for low, _ in bands)), math.hypot(*(high for _, high in bands))


def _of_several(
    ratio: float,
    independent: tuple[float, float],
    chained: tuple[float, float] | None,
    apart: tuple[str, ...],
    intervals: tuple[Interval, Interval],
) -> PairedDifference:
    """Difference of runs that differ in several things: the narrower of a chain and of independent intervals."""
    what = " and ".join(WORDS[name] for name in apart) or "their plans"
    if chained is not None and sum(chained) < sum(independent):
        (down, up), grade = chained, "fitted"
        basis = f"measured pairs of runs that differ in {what}, one after the other, added in quadrature"
    else:
        down, up = independent
        basis = f"the errors of the two step times count as independent: the runs differ in {what}"
        order = ("measured", "fitted", "analytic", "assumed")
        grade = max((interval.grade for interval in intervals), key=order.index)
    width = max(down if ratio > 1 else up, 1e-9)
    chance = 0.5 * (1.0 + math.erf(math.log(ratio) / width * _QUANTILE / math.sqrt(2.0)))
    return _difference(ratio, (ratio * math.exp(-down), ratio * math.exp(up)), chance, 0, basis, grade)


def _difference(
    ratio: float, edges: tuple[float, float], chance: float, pairs: int, basis: str, grade: str
) -> PairedDifference:
    excludes_one = edges[0] > 1.0 or edges[1] < 1.0
    faster, sure = ("A", chance) if chance >= 0.5 else ("B", 1.0 - chance)
    if excludes_one:
        verdict = f"{faster} is faster: {100 * sure:.0f} % sure"
    else:
        verdict = f"cannot be told apart: {faster} is faster with {100 * sure:.0f} % probability"
    return PairedDifference(
        ratio=ratio,
        low=edges[0],
        high=edges[1],
        level=LEVEL,
        probability_a_faster=chance,
        told_apart=excludes_one,
        pairs=pairs,
        basis=basis,
        grade=grade,
        verdict=verdict,
    )
