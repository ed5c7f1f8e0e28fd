"""Clients with documents of their own: fair and local scheduling next to fair, and next to local scheduling."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

if TYPE_CHECKING:
    from windtunnel.serving.results.serving_result import ServingResult

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
DLPM, VTC, LPM = "dlpm", "vtc", "lpm"


def scenario(system: str, values: Values, *, workers: int = 1, uneven: float = 1.0) -> Values:
    """All questions at once; client 0 sends `uneven` times as many as each other one."""
    tenants = [
        {"name": f"client{i}", "share": uneven if i == 0 else 1.0, "prefixes": values["documents"]}
        | {"shared_prefix_tokens": values["document_tokens"]}
        for i in range(fixed("clients"))
    ]
    techniques: list[Any] = []
    queue: Any = LPM
    if system == DLPM:
        techniques = [{"dlpm": {"quantum": values["quantum"], "distributed": workers > 1}}]
    elif system == VTC:
        techniques = ["vtc"]
    return {
        "model": fixed("model"),
        "cluster": {"device": "a10g-24gb", "nodes": workers, "devices_per_node": 1},
        "techniques": techniques,
        "serving": {
            "engine": fixed("engine"),
            "router": "cache_aware" if workers > 1 else "round_robin",
            "pools": [{"queue": queue, "replicas": workers}],
            "traffic": {
                "offline": True,
                "num_requests": fixed("requests" if workers == 1 else "worker_requests"),
                "input_tokens": values["document_tokens"] + fixed("question_tokens"),
                "output_tokens": fixed("answer_tokens"),
                "tenants": tenants,
            },
        },
    }


def ratio(values: Values, other: str) -> float:
    """Requests a second of DLPM over those of another discipline, equal clients."""
    own, theirs = (served(scenario(system, values)).throughput_requests_per_s for system in (DLPM, other))
    return own / theirs


def spread(result: ServingResult) -> float:
    """Largest change of the difference of service between two clients while both have requests in line.

    Service is prompt tokens that were computed, when a request is scheduled, and two for each answer token.
    """
    t = result.table
    begin = t["arrival_s"] + t["queue_s"]
    first, end = t["arrival_s"] + t["ttft_s"], t["arrival_s"] + t["e2e_s"]
    prompt = (t["input_tokens"] - t["cached_tokens"]).astype(float)
    at = np.unique(begin)
    got, last = {}, {}
    for client in np.unique(t["tenant"]):
        mine = t["tenant"] == client
        made = np.clip((at[:, None] - first[mine]) / np.maximum(end[mine] - first[mine], 1e-9), 0.0, 1.0)
        answers = (2.0 * t["output_tokens"][mine] * made).sum(axis=1)
        got[client] = answers + (prompt[mine] * (begin[mine] <= at[:, None])).sum(axis=1)
        last[client] = begin[mine].max()
    worst = 0.0
    for a, b in combinations(got, 2):
        both = at < min(last[a], last[b])
        if both.any():
            worst = max(worst, float(np.ptp((got[a] - got[b])[both])))
    return worst


def over_bound(values: Values) -> float:
    """Spread of DLPM over 2·(U + quantum), U = max(longest prompt, 2 · tokens that the cache holds)."""
    result = served(scenario(DLPM, values, uneven=values["uneven"]))
    most = max(values["document_tokens"] + fixed("question_tokens"), 2.0 * result.capacity["tokens"])
    return spread(result) / float(2.0 * (most + values["quantum"]))


def latency(values: Values) -> float:
    """Median latency of the clients that send less, local scheduling over D2LPM."""

    def median(system: str) -> float:
        t = served(scenario(system, values, workers=fixed("workers"), uneven=values["uneven"])).table
        return float(np.median(t["e2e_s"][t["tenant"] > 0]))

    return median(LPM) / median(DLPM)


def less_fair(values: Values) -> float:
    """Spread of LPM over that of DLPM."""
    own, theirs = (served(scenario(system, values, uneven=values["uneven"])) for system in (DLPM, LPM))
    return spread(theirs) / spread(own)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "throughput": lambda v: ratio(v, VTC),
        "lpm-throughput": lambda v: ratio(v, LPM),
        "fairness": over_bound,
        "latency": latency,
        "less-fair-than-vtc": less_fair,
    }
