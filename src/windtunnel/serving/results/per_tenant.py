"""What each tenant got, and how evenly: service, latencies, and the measures of fairness that papers use.

Service is weighted tokens, 1 a prompt token and 2 an answer token: Sheng et al. 2024 (card
`vtc`), section 5.1, after the price lists of that time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.serving.event_loop.requests import DONE, REJECTED, SHED, Requests
from windtunnel.serving.results.metrics import Measures, distribution

if TYPE_CHECKING:
    from windtunnel.specs.serving import ServingSpec

INPUT_WEIGHT, OUTPUT_WEIGHT = 1.0, 2.0
WINDOW_S = 60.0
"""Window of the service difference: the paper looks 30 s back and 30 s ahead."""
_INSTANTS = 200


def by_tenant(
    requests: Requests, found: Measures, serving: ServingSpec
) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """Figures by tenant, and those between tenants; empty without tenants.

    Args:
        requests: after a run.
        found: their latencies.
        serving: tenants and the common objective.
    """
    tenants = serving.traffic.tenants
    if not tenants:
        return {}, {}
    out: dict[str, dict[str, Any]] = {}
    for i, tenant in enumerate(tenants):
        mine = requests.tenant == i
        done = mine & (requests.state == DONE)
        own = {n: getattr(tenant, n) for n in ("ttft_s", "tpot_s", "e2e_s") if getattr(tenant, n) is not None}
        good = found.good(serving.slo.model_copy(update=own)) & mine
        measured = mine & (found.done | (requests.state == SHED))
        span = _span(requests, done)
        service = _weighted(requests, done)
        out[tenant.name] = {
            "weight": tenant.weight,
            "requests": int(mine.sum()),
            "completed": int(done.sum()),
            "rejected": int((mine & (requests.state == REJECTED)).sum()),
            "shed": int((mine & (requests.state == SHED)).sum()),
            "preemptions": int(requests.preemptions[mine].sum()),
            "input_tokens": int(requests.input_tokens[done].sum()),
            "output_tokens": int(requests.output_tokens[done].sum()),
            "cached_tokens": int(requests.cached_tokens[done].sum()),
            "service": service,
            "service_per_s": service / span if span else 0.0,
            "slo_attainment": float(good.sum()) / max(int(measured.sum()), 1),
            **{
                name: distribution(np.where(mine, getattr(found, name), np.nan)).to_dict()
                for name in ("ttft_s", "tpot_s", "e2e_s", "queue_s")
            },
        }
    return out, fairness(requests, np.array([t.weight for t in tenants]))


def fairness(requests: Requests, weights: Floats) -> dict[str, float]:
    """Jain's index of service over weight, and differences of service between tenants that have work.

    `service_difference_*`: at each of many instants, service within a minute around it; for each tenant the lesser of
    what it lacks to the best served and what it asked for beyond what it got, summed (VTC, section 5.1).
    """
    done = requests.state == DONE
    if not done.any():
        return {}
    total = np.array([_weighted(requests, done & (requests.tenant == i)) for i in range(len(weights))]) / weights
    sent = np.array([(requests.tenant == i).any() for i in range(len(weights))])
    index = float(total[sent].sum() ** 2 / (sent.sum() * (total[sent] ** 2).sum())) if total.any() else 1.0
    begin, end = float(np.nanmin(requests.arrival_s)), float(np.nanmax(requests.finish_s[done]))
    at = np.linspace(begin, end, _INSTANTS)
    low, high = np.maximum(at - WINDOW_S / 2, begin), np.minimum(at + WINDOW_S / 2, end)
    got = _served_by(requests, len(weights), high) - _served_by(requests, len(weights), low)
    asked = _asked_by(requests, len(weights), high) - _asked_by(requests, len(weights), low)
    waits = _asked_by(requests, len(weights), low) - _served_by(requests, len(weights), low)
    got, asked = got / weights, (asked + np.maximum(waits, 0.0)) / weights
    lacks = np.minimum(got.max(axis=1, keepdims=True) - got, np.maximum(asked - got, 0.0)).sum(axis=1)
    return {
        "jain_index": index,
        "service_difference_max": float(lacks.max()),
        "service_difference_mean": float(lacks.mean()),
        "window_s": WINDOW_S,
    }


def _weighted(requests: Requests, which: Any) -> float:
    inputs, outputs = requests.input_tokens[which].sum(), requests.output_tokens[which].sum()
    return float(INPUT_WEIGHT * inputs + OUTPUT_WEIGHT * outputs)


def _span(requests: Requests, done: Any) -> float:
    if not done.any():
        return 0.0
    return float(requests.finish_s[done].max() - requests.arrival_s[done].min())


def _served_by(requests: Requests, tenants: int, at_s: Floats) -> Floats:
    """(T, tenants) service received by then: prompts when they are computed, answers evenly until their end."""
    out = np.zeros((len(at_s), tenants))
    for i in range(tenants):
        mine = (requests.tenant == i) & (requests.state == DONE)
        first, finish = requests.first_token_s[mine], requests.finish_s[mine]
        outputs = requests.output_tokens[mine] * OUTPUT_WEIGHT
        for t, now in enumerate(at_s):
            share = np.clip((now - first) / np.maximum(finish - first, 1e-12), 0.0, 1.0)
            came = first <= now
            out[t, i] = (INPUT_WEIGHT * requests.input_tokens[mine] * came + outputs * share * came).sum()
    return out


def _asked_by(requests: Requests, tenants: int, at_s: Floats) -> Floats:
    """(T, tenants) service that arrivals until then amount to."""
    out = np.zeros((len(at_s), tenants))
    whole = INPUT_WEIGHT * requests.input_tokens + OUTPUT_WEIGHT * requests.output_tokens
    for i in range(tenants):
        mine = np.flatnonzero((requests.tenant == i) & np.isfinite(requests.arrival_s))
        mine = mine[np.argsort(requests.arrival_s[mine], kind="stable")]
        sums = np.concatenate([[0.0], whole[mine].cumsum()])
        out[:, i] = sums[np.searchsorted(requests.arrival_s[mine], at_s, side="right")]
    return out
