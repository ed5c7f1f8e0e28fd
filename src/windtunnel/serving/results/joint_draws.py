"""First tokens, steps, whole answers and tokens a second of one run, as far off together as measured rows have been.

A draw is what one server that nobody measured may do: by how much its first tokens and the time between its tokens are
longer than predicted, both taken from one measured case. Whole answers and tokens a second follow from the same draw,
so that the intervals of one run cannot contradict each other:

* an answer takes its first token and the rest, each times its own factor;
* where requests wait for answers (closed loop, offline, saturated), tokens a second are the inverse of answers
  (Little's law); where they come by the clock, what arrives comes out, and never more, unless the draw is too slow to
  keep up;
* where all requests come at once, tokens a second are what rows of that kind measure, and measure well: draws are
  scaled so that their answers take as long as those rows say, the slowest as the slowest.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.serving.results.measured_residuals import (
    CASE,
    GROUP,
    LEFT_OUT,
    LEFT_OUT_SET,
    LOAD,
    MEASURE,
    Deviation,
    Place,
    Residual,
    circles,
    set_of,
)

DRAWS = 4096
"""Draws: quantiles of a tenth then lie within 1 % of their limit."""
LEVEL = 0.8
TAIL = 0.05
"""Share beyond each end of a band at a site that the record knows, whose groups are few and do not show the worst: with
this share 81 % of all measured values lie inside intervals that their whole group is left out of (70 % with 0.1)."""
FEW_CASES = 3
"""Cases below which a group says nothing of how its cases scatter."""
FULL_BATCH = ("offline", "saturated")
"""Loads under which requests wait for each other, so that all their times follow the tokens a second."""
MEASURES = ("ttft", "tpot", "e2e", "throughput")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShape:
    """What of a run decides how whole answers and tokens a second follow from first tokens and steps."""

    load: str
    """closed (requests wait for answers), open (they come by the clock), saturated (faster than they are served), or
    offline (all at once)."""
    first_token_share: float
    """Mean time to first token over the mean time of a whole answer."""
    rate_share: float = 1.0
    """Part of the time over which tokens a second are counted that grows with the time of answers: all of it where
    requests wait for answers, the drain of the last ones where they come by the clock."""
    offered: float = math.inf
    """Tokens a second that arrive, over those that were predicted to come out."""
    pool_loads: tuple[tuple[float, float], ...] = ()
    """Share of what each pool can do that prompts take, and that decoding takes: a draw whose factors lift their sum
    above 1 cannot keep up."""
    arrival_deviation: float = 0.0
    """Standard deviation of the logarithm of the rate at which requests came, where arrivals were drawn anew."""


@dataclass(frozen=True, slots=True)
class Band:
    """Factors on a prediction between which a measurement lies with probability `level`."""

    low: float
    high: float
    basis: str
    grade: str
    level: float = LEVEL

    def around(self, predicted: float, least: float = 0.0) -> dict[str, float | str]:
        """The interval of a prediction, as results and validation write it.

        Args:
            predicted: the central value.
            least: what no measurement can be below: the roofline.
        """
        return {
            "level": self.level,
            "low": max(predicted * self.low, min(least, predicted)),
            "high": predicted * self.high,
            "basis": self.basis,
            "grade": self.grade,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """(N,) logarithms of measured over predicted seconds, element by element of one server."""

    ttft: Floats
    tpot: Floats
    full_batch: Floats | None
    """Of whole answers where all requests come at once, sorted; None: no row measured that."""
    tail: float
    """Share beyond each end of an interval."""
    basis: str
    grade: str
    scatter: Floats | None = None
    """(C, 2) of first tokens and steps of cases about the medians of their own group; None: no group of several."""
    full_batch_scatter: Floats | None = None
    """(C,) the same of whole answers where all requests come at once."""
    medians: Floats | None = None
    """(G, 2) of first tokens and steps of groups; None where draws are not made of groups and cases."""
    offsets: Floats | None = None
    """(C, 2) distances of cases from the medians of their group."""
    site: Deviation | None = None
    """How far whole sets are off; None at a site that the record knows."""

    def server(self, group: float, case: float, first: float, step: float) -> tuple[float, float]:
        """Logarithms of measured over predicted first tokens and steps of one server, as `ttft` and `tpot` hold many.

        Args:
            group: from 0 to 1, which group's medians.
            case: from 0 to 1, which case's distance from its group.
            first: standard normal deviate of the site's first tokens.
            step: one of the site's steps, without what they share with first tokens.
        """
        if self.medians is None or self.offsets is None:
            k = int(group * len(self.ttft))
            return float(self.ttft[k]), float(self.tpot[k])
        found = self.medians[int(group * len(self.medians))] + self.offsets[int(case * len(self.offsets))]
        if self.site is not None:
            other = math.sqrt(max(1.0 - self.site.correlation**2, 0.0))
            sets = self.site.of("ttft") * first, self.site.of("tpot") * (self.site.correlation * first + other * step)
            found = found + np.array(sets)
        return float(found[0]), float(found[1])

    def once_measured(self) -> Draws | None:
        """Draws of the same server once one case of its model is measured there, and predictions are scaled by it.

        What its group and its site are off by is then known but for that case's own distance from its group: what stays
        is the difference between two cases of one group. None where no group has several cases.
        """
        if self.scatter is None:
            return None
        rates = self.full_batch_scatter
        logs = _difference(self.scatter)
        return Draws(
            ttft=logs[:, 0],
            tpot=logs[:, 1],
            full_batch=None if rates is None else np.sort(_difference(rates[:, None])[:, 0]),
            tail=(1.0 - LEVEL) / 2,
            basis=f"differences between cases of one group, of {len(self.scatter)} measured cases",
            grade="fitted",
        )

    def of(self, shape: RunShape) -> dict[str, Floats]:
        """Logarithms of measured over predicted values of each measure under a load."""
        first, step = np.exp(self.ttft), np.exp(self.tpot)
        answer = shape.first_token_share * first + (1.0 - shape.first_token_share) * step
        if shape.load in FULL_BATCH and self.full_batch is not None:
            scale = np.empty_like(answer)
            scale[np.argsort(answer, kind="stable")] = np.exp(self.full_batch)
            scale /= answer
            first, step, answer = first * scale, step * scale, answer * scale
        rate = 1.0 / np.maximum(1.0 + shape.rate_share * (answer - 1.0), 1e-9)
        if shape.load == "open":
            for prompts, decoding in shape.pool_loads:
                rate = np.minimum(rate, 1.0 / np.maximum(prompts * first + decoding * step, 1.0))
            rate = rate * np.exp(shape.arrival_deviation * _uniform()[:, 4])
        rate = np.minimum(rate, shape.offered)
        values = (first, step, answer, rate)
        return {name: np.log(own) for name, own in zip(MEASURES, values, strict=True)}

    def factors(self, ttft: float, tpot: float, shape: RunShape, arrivals: float = 0.0) -> dict[str, float]:
        """Measured over predicted value of each measure of one server under a load.

        Args:
            ttft: its logarithm of measured over predicted seconds of a first token.
            tpot: the same of a step.
            shape: of the run.
            arrivals: standard normal deviate of the rate at which requests came.
        """
        first, step = math.exp(ttft), math.exp(tpot)
        share = shape.first_token_share
        answer = share * first + (1.0 - share) * step
        if shape.load in FULL_BATCH and self.full_batch is not None:
            all_answers = np.sort(share * np.exp(self.ttft) + (1.0 - share) * np.exp(self.tpot))
            place = float(np.searchsorted(all_answers, answer)) / len(all_answers)
            scale = math.exp(float(np.quantile(self.full_batch, min(place, 1.0)))) / answer
            first, step, answer = first * scale, step * scale, answer * scale
        rate = 1.0 / max(1.0 + shape.rate_share * (answer - 1.0), 1e-9)
        if shape.load == "open":
            for prompts, decoding in shape.pool_loads:
                rate = min(rate, 1.0 / max(prompts * first + decoding * step, 1.0))
            rate *= math.exp(shape.arrival_deviation * arrivals)
        return dict(zip(MEASURES, (first, step, answer, min(rate, shape.offered)), strict=True))

    def bands(self, shape: RunShape) -> dict[str, Band]:
        """The interval of each measure under a load; every prediction lies inside its own."""
        out = {}
        for name, logs in self.of(shape).items():
            low, high = np.exp(np.quantile(logs, [self.tail, 1.0 - self.tail]))
            out[name] = Band(min(float(low), 1.0), max(float(high), 1.0), self.basis, self.grade)
        return out


def joint_draws(rows: Sequence[Residual], place: Place, deviation: Deviation | None) -> Draws | None:
    """Draws of a server at a place; None without any case that measured first tokens and steps.

    A group that nobody measured is off by as much as some other group is, its medians, and its cases scatter about that
    as cases of any group do: a draw is the medians of one group plus the distance of one case from its own group's.

    Args:
        rows: residuals of one form, without those that must not count.
        place: where it runs.
        deviation: how far whole sets are off, at a site that no row was measured at; None at one that the record knows.
    """
    cases = _cases(rows, LEFT_OUT if deviation is None else LEFT_OUT_SET, centred=deviation is not None)
    kept = [one for one in cases if one.complete]
    found = next(circles(kept, place, several=deviation is not None), None)
    if found is None:
        return None
    name, grade, near = found
    groups, seen = [one.group for one in near], np.array([[one.logs["ttft"], one.logs["tpot"]] for one in near])
    logs, scatter = of_a_new_group(groups, seen), _inside_groups(groups, seen)
    medians, offsets = _medians_and_offsets(groups, seen)
    full_batch, full_batch_scatter = _full_batch(cases, place, deviation)
    at = f"first tokens and steps of {len(near)} measured cases ({name})"
    if deviation is None:
        return Draws(
            ttft=logs[:, 0],
            tpot=logs[:, 1],
            full_batch=full_batch,
            tail=TAIL,
            basis=f"{at}, left out of the fit",
            grade=grade,
            scatter=scatter,
            full_batch_scatter=full_batch_scatter,
            medians=medians,
            offsets=offsets,
        )
    normal = _uniform()[:, 2:4]
    other = math.sqrt(max(1.0 - deviation.correlation**2, 0.0))
    first, step = normal[:, 0], deviation.correlation * normal[:, 0] + other * normal[:, 1]
    return Draws(
        ttft=logs[:, 0] + deviation.of("ttft") * first,
        tpot=logs[:, 1] + deviation.of("tpot") * step,
        full_batch=full_batch,
        tail=(1.0 - LEVEL) / 2,
        basis=f"{at}, and {deviation.of('ttft'):.2f} and {deviation.of('tpot'):.2f} by which whole sets are off",
        grade=grade,
        scatter=scatter,
        full_batch_scatter=full_batch_scatter,
        medians=medians,
        offsets=offsets,
        site=deviation,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One measured case: what it measured together."""

    place: Place
    group: str
    set: tuple[str, str, str]
    load: str
    logs: dict[str, float]
    """Measure → logarithm of measured over predicted seconds; of tokens a second, of the time that they take."""

    @property
    def complete(self) -> bool:
        """Whether it measured first tokens and steps."""
        return "ttft" in self.logs and "tpot" in self.logs


def _cases(rows: Sequence[Residual], column: int, *, centred: bool) -> list[Case]:
    """Measured cases; `centred`: about the median of their set."""
    sets: dict[tuple[object, str], list[float]] = defaultdict(list)
    for row in rows:
        sets[set_of(row), str(row[MEASURE])].append(float(row[column]))
    middle = {key: float(np.median(own)) for key, own in sets.items()} if centred else {}
    found: dict[tuple[object, ...], list[Residual]] = defaultdict(list)
    for row in rows:
        found[set_of(row), row[GROUP], row[CASE]].append(row)
    out = []
    for members in found.values():
        first, logs = members[0], defaultdict(list)
        for row in members:
            measure = str(row[MEASURE])
            error = float(row[column]) - middle.get((set_of(row), measure), 0.0)
            logs[measure].append(error if measure == "throughput" else -error)
        out.append(
            Case(
                place=(str(first[0]), str(first[1]), str(first[2])),
                group=str(first[GROUP]),
                set=set_of(first),
                load=str(first[LOAD]),
                logs={name: float(np.mean(own)) for name, own in logs.items()},
            )
        )
    return out


def _full_batch(
    cases: Sequence[Case], place: Place, deviation: Deviation | None
) -> tuple[Floats | None, Floats | None]:
    """Logarithms of measured over predicted time of whole answers where all requests come at once, sorted.

    The second are those of cases about the medians of their groups.
    """
    rated = [one for one in cases if "throughput" in one.logs and one.load in FULL_BATCH]
    found = next(circles(rated, place, several=deviation is not None), None)
    if found is None:
        return None, None
    groups, seen = [one.group for one in found[2]], np.array([[one.logs["throughput"]] for one in found[2]])
    logs, scatter = of_a_new_group(groups, seen)[:, 0], _inside_groups(groups, seen)
    if deviation is not None:
        logs = logs + deviation.of("throughput") * _uniform()[:, 4]
    return np.sort(logs), None if scatter is None else scatter[:, 0]


def _inside_groups(groups: Sequence[str], logs: Floats) -> Floats | None:
    """(C, M) distances of cases from the medians of their group, of groups with `FEW_CASES` or more."""
    names, of, count = np.unique(np.array(groups), return_inverse=True, return_counts=True)
    parts = [logs[of == i] - np.median(logs[of == i], axis=0) for i in range(len(names)) if count[i] >= FEW_CASES]
    return np.concatenate(parts) if parts else None


def _difference(scatter: Floats) -> Floats:
    """(N, M) differences between two of (C, M) rows, all M columns of a row together."""
    one, other = ((_uniform()[:, k] * len(scatter)).astype(int) for k in (0, 1))
    out: Floats = scatter[one] - scatter[other]
    return out


def of_a_new_group(groups: Sequence[str], logs: Floats) -> Floats:
    """(N, M) draws: the medians of one group plus the distance of one case from those of its own, all M measures of it.

    Args:
        groups: (C,) group of each case.
        logs: (C, M).
    """
    medians, scatter = _medians_and_offsets(groups, logs)
    drawn = _uniform()
    one, other = ((drawn[:, k] * len(x)).astype(int) for k, x in ((0, medians), (1, scatter)))
    out: Floats = medians[one] + scatter[other]
    return out


def _medians_and_offsets(groups: Sequence[str], logs: Floats) -> tuple[Floats, Floats]:
    """(G, M) medians of groups, and (C, M) distances of cases from those of their own."""
    names, of = np.unique(np.array(groups), return_inverse=True)
    medians = np.array([np.median(logs[of == i], axis=0) for i in range(len(names))])
    return medians, logs - medians[of]


@cache
def _uniform() -> Floats:
    """(N, 5) numbers that fill a unit cube evenly, the last three as standard normal deviates; the same every time.

    Source: the additive recurrence with the generalised golden ratio (M. Roberts, "The unreasonable effectiveness of
    quasirandom sequences", 2018).
    """
    width = 5
    golden = 2.0
    for _ in range(40):
        golden = (1.0 + golden) ** (1.0 / (width + 1))
    steps = golden ** -np.arange(1.0, width + 1.0)
    out: Floats = (0.5 + np.arange(1, DRAWS + 1)[:, None] * steps) % 1.0
    deviate = NormalDist().inv_cdf
    out[:, 2:] = [[deviate(float(x)) for x in row] for row in out[:, 2:]]
    return out


def widest(found: Sequence[Mapping[str, Band]], grades: Sequence[str]) -> dict[str, Band]:
    """Of several pools' intervals the widest, measure by measure."""
    out: dict[str, Band] = {}
    for name in dict.fromkeys(n for own in found for n in own):
        own = [one[name] for one in found if name in one]
        basis = "; ".join(dict.fromkeys(one.basis for one in own))
        grade = max((one.grade for one in own), key=grades.index)
        out[name] = Band(min(one.low for one in own), max(one.high for one in own), basis, grade)
    return out
