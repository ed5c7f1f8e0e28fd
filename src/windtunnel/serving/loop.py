"""Requests through instances, jitted: arrays in, arrays out."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.serving import reference
from windtunnel.serving.limits import Limits
from windtunnel.serving.overlap import Overlap
from windtunnel.serving.prefixes import Chains, chains_of
from windtunnel.serving.queues.base import Queue
from windtunnel.serving.recorder import Recorder
from windtunnel.serving.reference import Admission, Policy, Router
from windtunnel.serving.requests import Floats, Requests

if TYPE_CHECKING:
    from windtunnel.serving.speculation.varied import Pace

_FIELDS = (
    ("arrival", "arrival_s"), ("delay", "delay_s"), ("input", "input_tokens"), ("output", "output_tokens"),
    ("cached", "cached_tokens"), ("priority", "priority"), ("group", "group"), ("follow", "follow"),
)  # fmt: skip
_RESULTS = (
    "arrival_s", "scheduled_s", "first_token_s", "finish_s", "preemptions", "instance", "state", "cached_tokens",
)  # fmt: skip
_LINKS = ("behind", "next_prompt", "before", "after", "instance")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind beside the requests' own times."""

    totals: Any
    """(N,) records `kernels.TOTAL`."""
    between_tokens: Floats
    """Counts by bin of time between tokens (`kernels.HISTOGRAM_*`)."""
    series: Any
    """(E,) records `kernels.SERIES`."""


def serve(
    requests: Requests, linear_s: Floats, limits: Limits, instances: int, chains: Chains | None = None
) -> Outcome:
    """Run all requests and write scheduled, first-token and finish times into `requests`.

    Args:
        requests: see `Requests`.
        linear_s: (G,) seconds of an iteration by its computed tokens, G above budget + sequences; or (2, G) with the
            part that is each rank's own (`limits.ranks`).
        limits: of each instance.
        instances: how many.
        chains: what prompts have in common, for `limits.caching`; None: as the requests say.
    """
    if limits.caching and chains is None:
        chains = chains_of(requests, limits.block)
    if chains is None or not limits.caching:
        return _run(requests, linear_s, limits, instances, None)
    if chains.common == 0:  # prompts have nothing in common: only requests that are taken out find their own blocks
        plain = replace(requests, arrival_s=requests.arrival_s.copy(), cached_tokens=np.zeros(len(requests), np.int32))
        outcome = _run(plain, linear_s, limits, instances, None)
        if not outcome.totals["preemptions"].any():
            for name in _RESULTS:
                setattr(requests, name, getattr(plain, name))
            return outcome
    return _run(requests, linear_s, limits, instances, chains)


def _long_enough(linear_s: Floats, requests: Requests, limits: Limits) -> Floats:
    """The table up to the longest whole prompt, which a policy that does not cut prompts computes in one iteration.

    Beyond the last entry seconds grow as they do at its end, where products are bound by compute.
    """
    if limits.chunked or not len(requests):
        return linear_s
    longest = int((requests.input_tokens + requests.output_tokens).max()) + limits.max_seqs * limits.step_tokens
    missing = longest + 1 - linear_s.shape[-1]
    if missing <= 0:
        return linear_s
    back = min(linear_s.shape[-1] - 1, 1024)
    last = linear_s[..., -1:]
    slope = (last - linear_s[..., -1 - back, None]) / max(back, 1)
    return np.concatenate([linear_s, last + slope * np.arange(1, missing + 1)], axis=-1)


def serve_plainly(
    requests: Requests, linear_s: Floats, limits: Limits, instances: int, chains: Chains | None = None, *,
    policy: Policy | None = None, router: Router | None = None, queue: Queue | None = None,
    admission: Admission | None = None, overlap: Overlap | None = None,
    pace: Pace | None = None,
) -> Outcome:  # fmt: skip
    """The same by the plain twin: slower, and with a policy or router of one's own.

    Args:
        requests: see `serve`, as for the next four.
        linear_s: see `serve`.
        limits: see `serve`.
        instances: see `serve`.
        chains: see `serve`.
        policy: hooks; None: the switches of `limits`.
        router: rule; None: the one of `limits`.
        queue: who is served first; None: the lowest class, then in order of arrival.
        admission: who is turned away; None: nobody.
        overlap: what techniques save of an iteration.
        pace: tokens that a request makes in a step; None: `limits.tokens_per_step`.
    """
    record, linear_s = Recorder(instances, limits.every), _long_enough(linear_s, requests, limits)
    reference.serve(
        requests, linear_s, limits, instances, policy=policy, router=router, chains=chains, record=record,
        queue=queue, admission=admission, overlap=overlap, pace=pace,
    )  # fmt: skip
    return Outcome(record.totals, record.between_tokens, record.series)


def _run(requests: Requests, linear_s: Floats, limits: Limits, instances: int, chains: Chains | None) -> Outcome:
    from windtunnel.serving import kernels

    linear_s = _long_enough(linear_s, requests, limits)
    rows = np.zeros(len(requests), kernels.REQUEST)
    for name, own in _FIELDS:
        rows[name] = getattr(requests, own)
    for name in ("scheduled", "first", "finish"):
        rows[name] = np.nan
    for name in _LINKS:
        rows[name] = -1
    record = np.zeros(1, kernels.LIMITS)
    for f in fields(limits):
        record[f.name] = getattr(limits, f.name)
    state = np.zeros(instances, kernels.INSTANCE)
    state["end"] = np.inf
    state["ratio"] = limits.ratio_start
    for name in ("prompt_head", "prompt_tail", "newest", "oldest", "youngest"):
        state[name] = -1
    shared: tuple[Any, ...] = (None, None, None, None)
    if chains is not None:
        state["common"], state["row"] = chains.common, np.arange(instances) * chains.common
        state["single"] = (instances - 1) * chains.common
        nodes = np.zeros(len(chains.size) + (instances - 1) * chains.common, kernels.NODE)
        shared = nodes, chains.start, chains.nodes, chains.size
    both_s = np.stack([linear_s, np.zeros_like(linear_s)]) if linear_s.ndim == 1 else linear_s
    totals, histogram, series = kernels.serve(rows, requests.order(), both_s, record[0], state, *shared)
    if chains is not None:
        requests.cached_tokens = rows["hit"].copy()
    requests.arrival_s = rows["arrival"].copy()
    requests.scheduled_s, requests.first_token_s = rows["scheduled"].copy(), rows["first"].copy()
    requests.finish_s, requests.preemptions = rows["finish"].copy(), rows["preemptions"].copy()
    requests.instance, requests.state = rows["instance"].copy(), rows["state"].copy()
    return Outcome(totals, histogram, series)
