"""What happened to the requests, in the words of vLLM's bench: TTFT, TPOT, ITL, E2E and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.serving.event_loop.requests import CANCELLED, DONE, REJECTED, SHED, Requests
from windtunnel.specs.serving import SloSpec

PERCENTILES = (50, 75, 90, 95, 99)
HISTOGRAM_LOW_S, HISTOGRAM_PER_DECADE = 1e-5, 200
"""Bins of `records.HISTOGRAM_*` (a test holds them equal; importing the loop would import Numba)."""
_SESSION_SHARE = 0.25
"""Mean length of a session over the time in which sessions begin, beyond which a run is never steady (assumed)."""
_ANSWERS_BETWEEN = 3.0
"""Median times from arrival to the last token, within which batches have filled (assumed)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One measure over requests (or tokens). Seconds, or whatever the measure counts."""

    count: int
    mean: float
    std: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float

    def times(self, factor: float) -> Distribution:
        """The same with every value so many times as large."""
        return Distribution(**{n: v if n == "count" else v * factor for n, v in self.to_dict().items()})  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, float]:
        """Plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


_NAN = float("nan")
_NONE = Distribution(count=0, mean=_NAN, std=_NAN, p50=_NAN, p75=_NAN, p90=_NAN, p95=_NAN, p99=_NAN, max=_NAN)


def distribution(values: Floats) -> Distribution:
    """Mean, standard deviation and percentiles (linear between neighbours, as NumPy and vLLM's bench take them)."""
    known = values[np.isfinite(values)]
    if not len(known):
        return _NONE
    p50, p75, p90, p95, p99 = (float(q) for q in np.percentile(known, PERCENTILES))
    mean, spread, most = float(known.mean()), float(known.std()), float(known.max())
    return Distribution(count=len(known), mean=mean, std=spread, p50=p50, p75=p75, p90=p90, p95=p95, p99=p99, max=most)


def from_histogram(counts: Floats) -> Distribution:
    """The same from counts by bin; a bin stands for its geometric middle (1.2 % wide)."""
    total = float(counts.sum())
    if total <= 0:
        return _NONE
    middle = HISTOGRAM_LOW_S * 10.0 ** ((np.arange(len(counts)) + 0.5) / HISTOGRAM_PER_DECADE)
    mean = float((counts * middle).sum() / total)
    spread = float(np.sqrt(max((counts * (middle - mean) ** 2).sum() / total, 0.0)))
    below = np.cumsum(counts) / total
    p50, p75, p90, p95, p99 = (float(middle[np.searchsorted(below, p / 100)]) for p in PERCENTILES)
    return Distribution(
        count=int(total),
        mean=mean,
        std=spread,
        p50=p50,
        p75=p75,
        p90=p90,
        p95=p95,
        p99=p99,
        max=float(middle[np.flatnonzero(counts)[-1]]),
    )


@dataclass(frozen=True, slots=True)
class Measures:
    """One value a request, shape (R,); NaN where a request has none. Seconds."""

    ttft_s: Floats
    tpot_s: Floats
    """(E2E − TTFT) / (output tokens − 1), for answers of more than one token."""
    e2e_s: Floats
    queue_s: Floats
    done: Mask

    def times(self, first: float, step: float) -> Measures:
        """The same requests with first tokens, queues included, and the rest of their answers so many times as long."""
        return Measures(
            self.ttft_s * first,
            self.tpot_s * step,
            self.ttft_s * first + (self.e2e_s - self.ttft_s) * step,
            self.queue_s * first,
            self.done,
        )

    def good(self, slo: SloSpec) -> Mask:
        """Requests that met every part of the objective."""
        ok = self.done.copy()
        for limit, values in ((slo.ttft_s, self.ttft_s), (slo.tpot_s, self.tpot_s), (slo.e2e_s, self.e2e_s)):
            if limit is not None:
                ok &= ~(values > limit)  # an answer of one token has no TPOT and cannot miss it
        return ok


def measures(requests: Requests, request_s: float, warmup: int = 0) -> Measures:
    """Times of each request as its client sees them.

    Args:
        requests: after a run.
        request_s: client, HTTP and tokeniser, once a request.
        warmup: first requests, by arrival, that are left out.
    """
    done = requests.state == DONE
    if warmup:
        done = done.copy()
        done[np.argsort(requests.arrival_s, kind="stable")[:warmup]] = False
    hide = np.where(done, 0.0, np.nan)
    ttft = requests.first_token_s - requests.arrival_s + request_s + hide
    e2e = requests.finish_s - requests.arrival_s + request_s + hide
    more = np.maximum(requests.output_tokens - 1, 0).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(more > 0, (e2e - ttft) / more, np.nan)
    return Measures(ttft, tpot, e2e, requests.scheduled_s - requests.arrival_s + hide, done)


def backlog_grows(requests: Requests) -> bool:
    """Whether requests piled up while they arrived: then no steady state exists, and none is reported.

    Counted at 60 % and at 100 % of the arrivals (of conversations: until the last one begins): queued requests; and,
    where the time between is several answers long, all that have not ended, because batches can grow for a while before
    a queue forms. Growth beyond 5 % of what arrived between, and beyond three standard deviations of a Poisson count,
    is no accident.
    """
    return _growth(requests) == "grows"


def too_short_to_tell(requests: Requests) -> bool:
    """Tell whether a run is too short to tell a queue that grows without end from batches that still fill."""
    return _growth(requests) == "unclear"


def _growth(requests: Requests) -> str:
    """`grows`, `unclear` or `steady`."""
    unsent = (requests.state == CANCELLED) & np.isnan(requests.scheduled_s)
    arrival = np.sort(requests.arrival_s[~np.isin(requests.state, (SHED, REJECTED)) & ~unsent])
    if len(arrival) < 50 or not np.isfinite(arrival).all() or arrival[-1] <= arrival[0]:
        return "steady"
    last = float(requests.arrival_s[requests.order()].max())  # later turns of conversations come on their own
    late = int(np.searchsorted(arrival, last, side="right")) - 1
    early = int(0.6 * (late + 1))
    came = late - early
    most = max(0.05 * came, 3.0 * came**0.5)

    def growth(times: Floats) -> int:
        left = np.sort(times[np.isfinite(times)])
        gone = np.searchsorted(left, arrival[[early, late]], side="right")
        return came - int(gone[1] - gone[0])

    if growth(requests.scheduled_s) > most:
        return "grows"
    if growth(requests.finish_s) <= most:
        return "steady"
    stays = requests.finish_s - requests.arrival_s
    long = float(np.median(stays[np.isfinite(stays)])) if np.isfinite(stays).any() else 0.0
    return "grows" if arrival[late] - arrival[early] >= _ANSWERS_BETWEEN * long else "unclear"


def sessions_outlast_arrivals(requests: Requests) -> tuple[float, float] | None:
    """Mean seconds of a conversation and seconds in which new ones come, where the first is a quarter of the second.

    Load then rises as conversations add up and falls as they end; it is what the scenario states briefly or never.
    """
    if not (requests.follow >= 0).any() or not np.isfinite(requests.finish_s).any():
        return None
    member = requests.follow >= 0  # requests next to conversations may share a group for their prefix
    member[requests.follow[member]] = True
    heads = requests.order()
    heads = heads[member[heads]]
    begun = requests.arrival_s[heads]
    ended = np.full(int(requests.group.max()) + 1, -np.inf)
    np.maximum.at(ended, requests.group[member], np.nan_to_num(requests.finish_s[member], nan=-np.inf))
    lasts = ended[requests.group[heads]] - begun
    lasts = lasts[np.isfinite(lasts)]
    come = float(begun.max() - begun.min()) if len(begun) else 0.0
    mean = float(lasts.mean()) if len(lasts) else 0.0
    return (mean, come) if mean > _SESSION_SHARE * come else None


def per_request(requests: Requests, found: Measures) -> dict[str, Any]:
    """Columns of the table of requests."""
    return {
        "arrival_s": requests.arrival_s,
        "input_tokens": requests.input_tokens,
        "output_tokens": requests.output_tokens,
        "queue_s": found.queue_s,
        "ttft_s": found.ttft_s,
        "tpot_s": found.tpot_s,
        "e2e_s": found.e2e_s,
        "preemptions": requests.preemptions,
        "instance": requests.instance,
        "completed": requests.state == DONE,
        "tenant": requests.tenant,
        "cached_tokens": requests.cached_tokens,
    }
