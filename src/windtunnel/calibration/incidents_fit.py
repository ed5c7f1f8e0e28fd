"""From a site's incident log to its failure profile: rates with intervals, times, and how nodes differ.

A cause that was seen n times in an exposure of T has the rate n / T; with Jeffreys' prior its posterior is a gamma
distribution of shape n + ½ and rate T, whose 10th and 90th percentile are the interval. Times between the failures of
one node and how nodes differ are fitted together: gaps are Weibull, hazards of nodes a gamma distribution of mean 1
(Lawless 2003, Statistical Models and Methods for Lifetime Data, chapters 2 and 10). Each of both stands in the profile
where a likelihood-ratio test refuses its absence at the 5 % level.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.calibration.incident_causes import UNKNOWN, Takes, takes
from windtunnel.calibration.incidents import Incident, IncidentLog
from windtunnel.errors import BadInput, Problem
from windtunnel.specs.run import DAY_S, FailureCause, FailureProfile

TAIL = 0.1
"""Probability beyond either end of an interval."""
NODES_PER_RACK = 4
_LEAST_GAPS = 10
"""Failures of nodes below which nothing is stated of gaps and of differences."""
_TEST_ONE, _TEST_TWO, _TEST_EDGE = 3.84, 5.99, 2.71
"""Twice the gain in log likelihood that is significant at 5 %: of one parameter, of two, of one at its edge (0)."""
_DROP = 0.821
"""Loss of log likelihood at the ends of an 80 % interval."""
_NORMAL = 1.2816
"""Standard errors to either end of it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 80 % interval."""

    value: float
    low: float
    high: float
    count: int = 0
    """Observations behind it."""


@dataclass(frozen=True, slots=True)
class FittedCause:
    """One cause of the log."""

    name: str
    rate: Estimate
    """Failures of 1,000 nodes (racks) in a day, or of the job in a day."""
    what: Takes
    detect_s: Estimate | None
    diagnose_s: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFit:
    """What a log says."""

    log: IncidentLog
    nodes: int | None
    days: float
    causes: tuple[FittedCause, ...]
    repair_s: Estimate | None
    shape: Estimate | None
    """Of the Weibull distribution of a node's gaps; None where the log does not say."""
    variation: Estimate | None
    """Coefficient of variation of rates between nodes; None likewise."""
    kept_shape: bool
    kept_variation: bool
    notes: tuple[str, ...]
    profile: FailureProfile


def fit_incidents(log: IncidentLog, *, nodes: int | None = None, days: float | None = None) -> IncidentFit:
    """The failure profile of a log.

    Args:
        log: What `read_incidents` read.
        nodes: Nodes that the log is of; absent: rates are of the job as a whole.
        days: How long the log goes on; absent: from its times.

    Raises:
        BadInput: a table of counts without days; times that are all one; fewer nodes or days than the log has.
    """
    notes: list[str] = []
    start, end = _window(log, days, notes)
    span_days = (end - start) / DAY_S
    named = {x.node for x in log.incidents if x.node}
    if nodes is not None and nodes < len(named):
        raise BadInput(Problem("--nodes", f"must be at least the {len(named)} nodes that {log.name} names", nodes))
    if nodes is None:
        told = f"{len(named)} nodes have incidents, " if named else ""
        notes.append(f"{told}--nodes does not say how many there are: rates are of the job as a whole, at its size")
    causes = _causes(log, nodes, span_days)
    for cause in causes:
        if cause.what is UNKNOWN:
            notes.append(f"'{cause.name}': {UNKNOWN.why}")
    repairs = [x.repair_s for x in log.incidents if x.repair_s and takes(x.cause, x.group).radius in ("node", "rack")]
    shape = variation = None
    kept_shape = kept_variation = False
    if nodes is not None and log.has_times and named:
        gaps = gaps_of(log.incidents, nodes, start, end)
        if gaps.count >= _LEAST_GAPS:
            shape, variation, kept_shape, kept_variation = fit_gaps(gaps)
        else:
            notes.append(
                f"{gaps.count} failures of named nodes say nothing of how nodes differ: exponential, all alike"
            )
    repair = _mean(repairs)
    told = f"{log.name}: {log.total:,} incidents in {span_days:.4g} days"
    profile = FailureProfile(
        name=Path(log.name).stem,
        source=told if nodes is None else f"{told} on {nodes:,} nodes",
        causes=tuple(_spec(c, nodes) for c in causes),
        weibull_shape=_within("weibull_shape", shape, _SHAPES, notes) if shape and kept_shape else 1.0,
        node_variation=_within("node_variation", variation, _VARIATIONS, notes)
        if variation and kept_variation
        else 0.0,
        nodes_per_rack=NODES_PER_RACK,
        repair_s=None if repair is None else round(repair.value, 1),
    )
    return IncidentFit(
        log=log,
        nodes=nodes,
        days=span_days,
        causes=causes,
        repair_s=repair,
        shape=shape,
        variation=variation,
        kept_shape=kept_shape,
        kept_variation=kept_variation,
        notes=tuple(notes),
        profile=profile,
    )


_SHAPES = (0.11, 10.0)
_VARIATIONS = (0.0, 10.0)
"""What a profile may state."""


def _within(name: str, found: Estimate, limits: tuple[float, float], notes: list[str]) -> float:
    """An estimate as a profile may state it; a note where the limit stands for it."""
    kept = min(max(found.value, limits[0]), limits[1])
    if kept != found.value:
        notes.append(f"{name}: {found.value:.4g} by the log, {kept:g} is the furthest that a profile goes")
    return round(kept, 4)


def _window(log: IncidentLog, days: float | None, notes: list[str]) -> tuple[float, float]:
    """First and last second that the log covers, on its own clock."""
    if not log.has_times:
        if days is None:
            rule = f"is needed: {log.name} has counts without times; how many days are they of?"
            raise BadInput(Problem("--days", rule))
        return 0.0, days * DAY_S
    times = [x.at_s for x in log.incidents if x.at_s is not None]
    first, last, n = times[0], times[-1], len(times)
    if days is None:
        if last <= first:
            raise BadInput(Problem("--days", f"is needed: all incidents of {log.name} have one time"))
        # n uniform moments span (n - 1) / (n + 1) of their window
        beside = (last - first) / (n - 1)
        notes.append(
            f"the log's length is not stated (--days): {(last - first + 2 * beside) / DAY_S:.4g} days from its times"
        )
        return first - beside, last + beside
    slack = days * DAY_S - (last - first)
    if slack < 0:
        rule = f"must be at least the {(last - first) / DAY_S:.4g} days between the first and the last incident"
        raise BadInput(Problem("--days", rule, days))
    start = 0.0 if first >= 0 and last <= days * DAY_S else first - slack / 2
    return start, start + days * DAY_S


def _causes(log: IncidentLog, nodes: int | None, days: float) -> tuple[FittedCause, ...]:
    """Causes by their counts, the most frequent first; spellings that differ in case are one."""
    rows: dict[str, list[Incident]] = defaultdict(list)
    for x in log.incidents:
        rows[x.cause.casefold()].append(x)
    out = []
    for group in rows.values():
        what = takes(group[0].cause, group[0].group)
        named = sum(bool(x.node) for x in group)
        if what is UNKNOWN and not named and any(x.node for x in log.incidents):
            what = Takes("job", "process", "the log names no node for it: the job restarts")
        count = sum(x.count for x in group)
        exposure = days if nodes is None or what.per == "job" else days * nodes / 1000.0
        if nodes is not None and what.per == "rack":
            exposure /= NODES_PER_RACK
        out.append(
            FittedCause(
                name=group[0].cause,
                rate=rate_of(count, exposure),
                what=what,
                detect_s=_mean([x.detect_s for x in group if x.detect_s is not None]),
                diagnose_s=_mean([x.diagnose_s for x in group if x.diagnose_s is not None]),
            )
        )
    return tuple(sorted(out, key=lambda c: (-c.rate.count, c.name)))


def rate_of(count: int, exposure: float) -> Estimate:
    """A rate and the interval of its gamma posterior with Jeffreys' prior."""
    from scipy.stats import gamma

    low, high = gamma.ppf([TAIL, 1.0 - TAIL], count + 0.5) / exposure
    return Estimate(count / exposure, float(low) if count else 0.0, float(high), count)


def _mean(values: list[float]) -> Estimate | None:
    """Mean of times and the interval of the mean of an exponential distribution; None without values."""
    if not values:
        return None
    from scipy.stats import gamma

    n, total = len(values), math.fsum(values)
    high, low = gamma.ppf([TAIL, 1.0 - TAIL], n)
    return Estimate(total / n, total / float(low), total / float(high), n)


def _spec(cause: FittedCause, nodes: int | None) -> FailureCause:
    field = {"node": "per_1000_node_days", "rack": "per_1000_rack_days", "job": "per_job_day"}[cause.what.per]
    if nodes is None:
        field = "per_job_day"
    radius = "process" if nodes is None and cause.what.radius == "rack" else cause.what.radius
    detect = cause.what.detect_s if cause.detect_s is None else cause.detect_s.value
    values = {
        "name": cause.name,
        field: float(f"{cause.rate.value:.5g}"),
        "rate_interval": (float(f"{cause.rate.low:.4g}"), float(f"{cause.rate.high:.4g}")),
        "radius": radius,
        "detect_s": round(detect, 1),
    }
    if cause.diagnose_s is not None:
        values["diagnose_s"] = round(cause.diagnose_s.value, 1)
    values |= {name: True for name in ("silent", "drains") if getattr(cause.what, name)}
    return FailureCause.model_validate(values)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Seconds between the failures of nodes."""

    ended: Floats
    """Gaps that a failure ended, seconds, shape (M,)."""
    of: np.ndarray
    """Their nodes, numbers below `failures`' length."""
    open_s: Floats
    """Seconds from the last failure of each node that failed to the end of the log."""
    failures: np.ndarray
    """Failures of each such node."""
    quiet: int
    """Nodes that never failed."""
    whole_s: float
    """How long they were watched."""

    @property
    def count(self) -> int:
        """Failures in all."""
        return len(self.ended)


def gaps_of(incidents: tuple[Incident, ...], nodes: int, start: float, end: float) -> Gaps:
    """Gaps of all nodes; a node's clock starts with the log, and again when its repair ends."""
    by: dict[str, list[Incident]] = defaultdict(list)
    for x in incidents:
        if x.node and x.at_s is not None and takes(x.cause, x.group).per == "node":
            by[x.node].append(x)
    ended: list[float] = []
    of: list[int] = []
    open_s = []
    for i, rows in enumerate(by.values()):
        since = start
        for x in rows:
            assert x.at_s is not None
            ended.append(max(x.at_s - since, 1.0))
            of.append(i)
            since = x.at_s + (x.detect_s or 0.0) + (x.repair_s or 0.0)
        open_s.append(max(end - since, 0.0))
    counts = np.array([len(rows) for rows in by.values()], np.int64)
    return Gaps(np.array(ended), np.array(of, np.int64), np.array(open_s), counts, max(nodes - len(by), 0), end - start)


def log_likelihood(gaps: Gaps, rate: float, shape: float, variance: float) -> float:
    """Of gaps with a Weibull shape and gamma hazards between nodes.

    Args:
        gaps: What was observed.
        rate: Failures of a mean node in a second.
        shape: Of the Weibull distribution, 1: exponential.
        variance: Of the hazards between nodes, whose mean is 1; 0: all alike.
    """
    from scipy.special import gammaln

    per_s = rate * math.gamma(1.0 + 1.0 / shape)
    hazard = np.bincount(gaps.of, (per_s * gaps.ended) ** shape, len(gaps.failures)) + (per_s * gaps.open_s) ** shape
    quiet = (per_s * gaps.whole_s) ** shape
    total = gaps.count * (math.log(shape) + shape * math.log(per_s)) + (shape - 1.0) * float(np.log(gaps.ended).sum())
    if variance < 1e-9:
        return float(total - float(hazard.sum()) - gaps.quiet * quiet)
    theta, n = 1.0 / variance, gaps.failures
    rising = gammaln(n + theta) - gammaln(theta) - n * math.log(theta)
    own = rising - (n + theta) * np.log1p(hazard / theta)
    return float(total + own.sum() - gaps.quiet * theta * math.log1p(quiet / theta))


def fit_gaps(gaps: Gaps) -> tuple[Estimate, Estimate, bool, bool]:
    """(shape, coefficient of variation, whether each is significant), by maximum likelihood.

    What is not significant is left at its absence while the other is fitted. The variation is that of rates: hazards
    of a Weibull clock vary with the rate to the power of the shape.
    """
    none = _best(gaps, 1.0, 0.0)
    shaped, varied, both = _best(gaps, None, 0.0), _best(gaps, 1.0, None), _best(gaps, None, None)
    gain = {name: 2.0 * (x.log_likelihood - none.log_likelihood) for name, x in (("k", shaped), ("v", varied))}
    whole = 2.0 * (both.log_likelihood - none.log_likelihood)
    kept_shape = kept_variation = False
    if whole > _TEST_TWO and whole - gain["v"] > _TEST_ONE and whole - gain["k"] > _TEST_EDGE:
        kept_shape = kept_variation = True
    elif gain["v"] >= gain["k"]:
        kept_variation = gain["v"] > _TEST_EDGE
    else:
        kept_shape = gain["k"] > _TEST_ONE
    of_shape, of_variation = both if kept_variation else shaped, both if kept_shape else varied
    shape = _ends(of_shape.shape, _error(gaps, of_shape, "shape"), gaps.count)
    scale = of_variation.shape
    value = math.sqrt(of_variation.variance) / scale
    if value < _NO_VARIATION:
        return shape, Estimate(value, 0.0, _most_variation(gaps, of_variation) / scale, gaps.count), kept_shape, False
    variation = _ends(value, 0.5 * _error(gaps, of_variation, "variance"), gaps.count)
    return shape, variation, kept_shape, kept_variation


@dataclass(frozen=True, slots=True)
class _Best:
    """Where the likelihood is greatest."""

    log_likelihood: float
    rate: float
    shape: float
    variance: float
    free: tuple[str, ...]
    """Parameters that were fitted, next to the others' given values."""


_LIMITS = {"rate": (-6.0, 6.0), "shape": (-2.2, 2.2), "variance": (-12.0, 4.5)}
"""Of logarithms; the rate's are next to that of the failures over the time watched."""
_NO_VARIATION = 0.03


def _best(gaps: Gaps, shape: float | None, variance: float | None) -> _Best:
    """The greatest likelihood with those parameters fixed that are given."""
    from scipy.optimize import minimize

    watched = float(gaps.ended.sum() + gaps.open_s.sum() + gaps.quiet * gaps.whole_s)
    plain = gaps.count / watched
    free = ("rate", *(["shape"] if shape is None else []), *(["variance"] if variance is None else []))
    given = {"rate": plain, "shape": shape or 1.0, "variance": 0.3 if variance is None else variance}

    def at(x: Floats) -> dict[str, float]:
        moved = {name: math.exp(v) for name, v in zip(free, x, strict=True)}
        return given | moved | {"rate": plain * moved["rate"]}

    start = [0.0 if name != "variance" else math.log(0.3) for name in free]
    found = minimize(
        lambda x: -log_likelihood(gaps, **at(x)), start, method="L-BFGS-B", bounds=[_LIMITS[n] for n in free]
    )
    return _Best(-float(found.fun), free=free, **at(found.x))


def _error(gaps: Gaps, best: _Best, name: str) -> float:
    """Standard error of a parameter's logarithm, from the curvature of the likelihood at its greatest."""
    step, n, at = 1e-3, len(best.free), best.free.index(name)

    def value(move: Floats) -> float:
        moved = {f: getattr(best, f) * math.exp(m) for f, m in zip(best.free, move, strict=True)}
        rest = {f: getattr(best, f) for f in _LIMITS}
        return log_likelihood(gaps, **(rest | moved))

    unit = np.eye(n) * step
    curved = [
        [(value(a + b) - value(a - b) - value(b - a) + value(-a - b)) / (4.0 * step * step) for b in unit] for a in unit
    ]
    return math.sqrt(max(float(np.linalg.pinv(-np.array(curved))[at, at]), 1e-8))


def _ends(value: float, error: float, count: int) -> Estimate:
    """A positive number with the interval of its logarithm."""
    return Estimate(value, value * math.exp(-_NORMAL * error), value * math.exp(_NORMAL * error), count)


def _most_variation(gaps: Gaps, best: _Best) -> float:
    """The variation of hazards at which the likelihood is `_DROP` below its greatest, of one that is about 0."""
    from scipy.optimize import brentq

    def below(variation: float) -> float:
        return best.log_likelihood - _DROP - log_likelihood(gaps, best.rate, best.shape, variation**2)

    return float(brentq(below, _NO_VARIATION, 9.0, xtol=1e-3)) if below(9.0) > 0 > below(_NO_VARIATION) else 9.0
