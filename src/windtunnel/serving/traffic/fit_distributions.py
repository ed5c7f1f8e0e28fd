"""Laws fitted to a trace: what to write under `traffic` to draw requests like it at any rate and number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Int32s
from windtunnel.importers.traces.record import RequestTrace
from windtunnel.serving.traffic import lengths
from windtunnel.specs.lengths import Lengths

FIELDS = ("distribution", "mean", "cv", "min", "max", "values")
SAMPLE = 20_000
QUANTILES = 100
MAX_ZIPF_SPAN = 1 << 17
"""Tokens from the shortest to the longest up to which a Zipf law is tried."""
POOR = 0.1
"""Largest difference of cumulative shares beyond which a law is not offered, but the trace's own quantiles."""


@dataclass(frozen=True, slots=True)
class FittedLengths:
    """A law of lengths and how far it is from the trace."""

    law: dict[str, Any]
    """Fields of `Lengths`."""
    distance: float
    """Kolmogorov–Smirnov: largest difference between the cumulative shares of trace and law."""
    mean: float
    """Mean of the trace."""
    rejected: tuple[str, float] | None = None
    """The best law with parameters and its distance, where quantiles are offered instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedArrivals:
    """A process of arrivals. Rates of requests, or of conversations."""

    rate_per_s: float
    process: str
    burstiness: float
    cv: float
    """Coefficient of variation of gaps; of counts in windows, what gaps would have in the long run."""
    distance: float | None
    """Kolmogorov–Smirnov, of gaps; None: a clock too coarse for gaps."""
    window_s: float
    """Width of the windows; 0: gaps were used."""
    daily_swing: float | None
    """Amplitude of a sine of one day over the mean rate; None: the trace is shorter than a day and a half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedTraffic:
    """All laws of a trace."""

    arrivals: FittedArrivals | None
    input_tokens: FittedLengths
    output_tokens: FittedLengths | None
    correlation: float
    turns: FittedLengths | None
    think_time_s: float
    known_blocks: float | None
    """Share of prefix blocks that an earlier request holds."""


def fit(trace: RequestTrace) -> FittedTraffic:
    """Fit all that a trace has; lengths of turns are what each adds to its conversation."""
    answered = bool((trace.output_tokens > 0).all())
    turns, think = None, 0.0
    if trace.turn is not None and trace.turn.any():
        turns = fit_lengths(np.diff(np.append(np.flatnonzero(trace.turn == 0), len(trace))).astype(np.int32))
        later = trace.turn > 0
        think = 0.0 if trace.delay_s is None else float(trace.delay_s[later].mean())
    known = None if trace.blocks is None else float(trace.blocks.known().sum() / max(len(trace.blocks.ids), 1))
    return FittedTraffic(
        arrivals=None if trace.arrival_s is None else fit_arrivals(trace.arrival_s, len(trace)),
        input_tokens=fit_lengths(trace.input_tokens),
        output_tokens=fit_lengths(trace.output_tokens) if answered else None,
        correlation=rank_correlation(trace.input_tokens, trace.output_tokens) if answered else 0.0,
        turns=turns,
        think_time_s=think,
        known_blocks=known,
    )


# -- arrivals ----------------------------------------------------------------------------------------------------------
def fit_arrivals(arrival_s: Floats, requests: int) -> FittedArrivals | None:
    """Rate, and Gamma's shape from gaps; from counts in windows where a clock is too coarse for gaps.

    Of gaps, the shape by likelihood or by moments, whichever is nearer: a few long silences move moments far. In the
    long run counts of a renewal process vary as its gaps: variance/mean of counts → cv² of gaps (Cox and Lewis, The
    Statistical Analysis of Series of Events, 1966, section 4.6).

    Args:
        arrival_s: (R,) with nan for turns that follow others.
        requests: all of them: the rate counts turns too.
    """
    times = np.sort(arrival_s[~np.isnan(arrival_s)])
    span = float(np.ptp(times)) if len(times) else 0.0
    if len(times) < 3 or span == 0:
        return None
    gaps = np.diff(times)
    distinct = np.unique(times)
    window, distance = 0.0, None
    cv = float(gaps.std() / gaps.mean())
    if len(distinct) < 0.8 * len(times):
        step = float(np.median(np.diff(distinct)))  # windows hold whole steps, and many gaps
        window = step * max(10, int(20 * gaps.mean() / step), int(span / step / 5000))
        counts = np.bincount(((times - times[0] + step / 2) // window).astype(np.int64))[:-1]
        counts = counts if len(counts) > 3 else np.bincount(((times - times[0]) // step).astype(np.int64))
        cv = float((counts.var() / counts.mean()) ** 0.5)
        burstiness = max(cv, 0.01) ** -2
    else:
        positive = gaps[gaps > 0]
        shapes = (max(cv, 0.01) ** -2, min(gamma_shape(positive), 1e4), 1.0)
        distance, burstiness = min((_gaps_distance(gaps, shape), shape) for shape in shapes)
    process = "constant" if burstiness > 400 else "poisson" if 0.9 < burstiness < 1.1 else "gamma"
    swing = None
    if span >= 1.5 * 86400:
        whole = times[times - times[0] < span // 86400 * 86400]
        swing = float(2 * abs(np.exp(2j * np.pi / 86400 * whole).mean()))
    rate = (len(times) - 1) / span * (requests / len(times))
    return FittedArrivals(
        rate_per_s=rate,
        process=process,
        burstiness=burstiness,
        cv=cv,
        distance=distance,
        window_s=window,
        daily_swing=swing,
    )


def _gaps_distance(gaps: Floats, shape: float) -> float:
    drawn = np.random.default_rng(0).standard_gamma(shape, SAMPLE) * (gaps.mean() / shape)
    return _apart(np.sort(gaps), np.sort(drawn))


# -- lengths -----------------------------------------------------------------------------------------------------------
def fit_lengths(values: Int32s) -> FittedLengths:
    """The law with the least distance to the trace; its own quantiles where none is near."""
    mean = float(values.mean())
    if (values == values[0]).all():
        return FittedLengths({"distribution": "fixed", "mean": int(values[0])}, 0.0, mean)
    found = [(_distance(values, law), law) for law in _laws(values) if _holds(law)]
    distance, law = min(found, key=lambda pair: pair[0])
    if distance <= POOR:
        return FittedLengths(law, distance, mean)
    places = (np.arange(QUANTILES) + 0.5) / QUANTILES
    own = {"distribution": "empirical", "values": np.quantile(values, places, method="nearest").astype(int).tolist()}
    return FittedLengths(own, _distance(values, own), mean, (law["distribution"], distance))


def _laws(values: Int32s) -> Iterator[dict[str, Any]]:
    """Each law by its moments, lognormal and gamma also by those of the logarithms (which outliers move less)."""
    low, high, mean = int(values.min()), int(values.max()), float(values.mean())
    ends = {"min": low, "max": high}
    cv = float(values.std() / mean)
    yield {"distribution": "uniform", **ends}
    for kind in ("normal", "lognormal", "gamma"):
        yield {"distribution": kind, "mean": _short(mean), "cv": _short(cv), **ends}
    logs = np.log(values)
    variance = float(logs.var())
    middle = float(np.exp(logs.mean() + variance / 2))
    if low <= middle <= high:
        yield {
            "distribution": "lognormal",
            "mean": _short(middle),
            "cv": _short(float(np.expm1(variance)) ** 0.5),
            **ends,
        }
    yield {"distribution": "gamma", "mean": _short(mean), "cv": _short(gamma_shape(values) ** -0.5), **ends}
    if low < mean <= (low + high) / 2 and high - low < MAX_ZIPF_SPAN:
        yield {"distribution": "zipf", "mean": _short(mean), **ends}


def gamma_shape(values: Any) -> float:
    """Shape of a Gamma law by maximum likelihood, from the means of values and of their logarithms.

    Source: Minka, Estimating a Gamma distribution (2002), the starting value of its equation 9, within 1.5 %.
    """
    gap = max(float(np.log(values.mean()) - np.log(values).mean()), 1e-9)
    return float((3 - gap + ((gap - 3) ** 2 + 24 * gap) ** 0.5) / (12 * gap))


def _holds(law: dict[str, Any]) -> bool:
    """Whether rounded parameters still make a law."""
    try:
        Lengths(**law)
    except ValueError:
        return False
    return True


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _distance(values: Int32s, law: dict[str, Any]) -> float:
    """Against what `Lengths` draws: rounding and cuts count."""
    return _apart(np.sort(values), np.sort(lengths.draw(Lengths(**law), SAMPLE, 0, lengths.INPUT)))


def _apart(own: Any, drawn: Any) -> float:
    """Largest difference of the cumulative shares of two sorted samples."""
    places = np.union1d(own, drawn)
    shares = (np.searchsorted(x, places, side="right") / len(x) for x in (own, drawn))
    return float(np.abs(next(shares) - next(shares)).max())


def rank_correlation(inputs: Int32s, outputs: Int32s) -> float:
    """Spearman's, with equal lengths sharing their mean rank."""
    first, second = _ranks(inputs), _ranks(outputs)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Int32s) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    ranks: Floats = (ends - (counts - 1) / 2)[inverse]
    return ranks
