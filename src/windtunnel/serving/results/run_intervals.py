"""Bands of a run's means, from residuals of measured rows (`residual_bands`), for one pool and for several.

Prefill and decode pools have measured rows of their own, which tell first tokens and times between tokens. What follows
from both follows here: end to end from the sum of both ends, tokens a second from how much longer or shorter requests
then take. Heterogeneous pools take the widest of their bands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from windtunnel.cost.serving import release_of
from windtunnel.serving.deployment import Deployment, Pool
from windtunnel.serving.results.residual_bands import Band, band

_GRADES = ("fitted", "analytic", "assumed")
THROUGHPUT = "output_tokens_per_s"


def intervals(
    d: Deployment, predicted: Mapping[str, float], *, cache_full: bool, duration_s: float, span_s: float, full: float
) -> dict[str, dict[str, Any]]:
    """Each mean with the ends of its band.

    No token takes less than what one sequence needs to read its weights at the memory's peak.

    Args:
        d: what was run.
        predicted: means by name, `ttft_s`, `tpot_s`, `e2e_s` and tokens a second among them.
        cache_full: whether waiting depends on the cache's exact size.
        duration_s: of the run.
        span_s: of its arrivals.
        full: share of what the fullest pool can do at once (`fullness`).
    """
    decoding = d.pools[-1]
    least_s = decoding.power_cap.work.at(1.0)[2] / decoding.cluster.device.memory_bytes_per_s * 1e6
    least_s /= decoding.limits.tokens_per_step
    split = decoding.spec.role == "decode"
    found = _split(d, predicted, cache_full, duration_s, span_s, full) if split else _whole(d, predicted, cache_full)
    out = {
        name: own.around(predicted[name], least_s if name in ("tpot_s", "itl_s") else 0.0)
        for name, own in found.items()
        if np.isfinite(predicted[name])
    }
    acting = ", ".join(x.technique.id for x in d.techniques if x.technique.serving)
    for own in out.values() if acting else ():  # measured rows know nothing of techniques
        own["basis"] += f"; no rows of {acting}"
        own["grade"] = "assumed" if own["grade"] == "assumed" else "analytic"
    return out


def fullness(by_pool: Iterable[tuple[Pool, Any]], duration_s: float) -> float:
    """Return how full the fullest pool is: prefill and mixed pools by time, decode pools by sequences and cache."""
    out = 0.0
    for p, totals in by_pool:
        of = duration_s * p.lanes
        if p.spec.role == "decode":
            running, used = float(totals["running_s"].sum()), float(totals["used_s"].sum())
            out = max(out, running / of / p.limits.max_seqs, used / of / p.limits.blocks)
        else:
            out = max(out, float(totals["busy_s"].sum()) / of)
    return out


def _whole(d: Deployment, predicted: Mapping[str, float], cache_full: bool) -> dict[str, Band]:
    out = {}
    for name in predicted:
        found = _of_all(d, name, "whole", cache_full)
        if found is not None and len(d.pools) > 1:
            found = Band(found.low, found.high, f"{found.basis}; no rows of several pools", _worst(found.grade, 1))
        if found is not None:
            out[name] = found
    return out


def _split(
    d: Deployment, predicted: Mapping[str, float], cache_full: bool, duration_s: float, span_s: float, full: float
) -> dict[str, Band]:
    out: dict[str, Band] = {}
    for name in ("ttft_s", "tpot_s", "itl_s"):
        found = _of_all(d, name, "split", cache_full)
        if found is not None:
            out[name] = Band(found.low, found.high, f"split pools: {found.basis}", found.grade)
    first, step = out.get("ttft_s"), out.get("tpot_s")
    ttft_s, e2e_s = predicted["ttft_s"], predicted["e2e_s"]
    if first is None or step is None or not np.isfinite(ttft_s + e2e_s) or e2e_s <= 0.0:
        return out
    rest_s = max(e2e_s - ttft_s, 0.0)
    low, high = ((ttft_s * a + rest_s * b) / e2e_s for a, b in ((first.low, step.low), (first.high, step.high)))
    grade = max(first.grade, step.grade, key=_GRADES.index)
    out["e2e_s"] = Band(low, high, "split pools: from the bands of ttft_s and tpot_s", grade)
    slow, fast, why = 1.0 / high, 1.0 / low, "requests in flight, each as long as e2e_s says"
    if not d.concurrency and not d.serving.traffic.offline:  # no more comes out than is asked
        fast = min(fast, duration_s / max(span_s, duration_s - e2e_s * max(1.0 - low, 0.0)))
        if full * step.high < 1.0:  # nor less; the last answers end later
            slow = max(slow, duration_s / (duration_s + e2e_s * max(high - 1.0, 0.0)))
            why = "arrivals bound it, the last answers end as late as e2e_s says"
    out[THROUGHPUT] = Band(slow, fast, f"split pools: {why}", grade)
    return out


def _of_all(d: Deployment, name: str, form: str, cache_full: bool) -> Band | None:
    """The widest of the pools' bands."""
    release = release_of(d.serving.engine, d.serving.engine_version)
    generations = dict.fromkeys(pool.cluster.device.generation for pool in d.pools)
    found = [band(release, one, d.model, name, form=form, cache_full=cache_full) for one in generations]
    return _widest(one for one in found if one is not None)


def _widest(bands: Iterable[Band]) -> Band | None:
    known = list(bands)
    if len(known) < 2:
        return known[0] if known else None
    grade = max((one.grade for one in known), key=_GRADES.index)
    basis = "; ".join(dict.fromkeys(one.basis for one in known))
    return Band(min(one.low for one in known), max(one.high for one in known), basis, grade)


def _worst(grade: str, least: int) -> str:
    return _GRADES[max(_GRADES.index(grade), least)]
