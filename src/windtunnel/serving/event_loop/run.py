"""Requests through instances, jitted: arrays in, arrays out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.kernel_cache import mark_compiled, runs_on_twin
from windtunnel.machine_memory import require_bytes
from windtunnel.progress import counting
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop.checks import check
from windtunnel.serving.event_loop.fleet import Fleet, extend_table, single_pool
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.prefix_chains import Chains, chains_of
from windtunnel.serving.event_loop.recorder import Recorder
from windtunnel.serving.event_loop.requests import CANCELLED, DONE, REJECTED, Requests
from windtunnel.serving.iteration.pipeline_stages import PipelineStages

KERNEL = "serving/event_loop/serve"
"""Name of the jitted loop among compiled kernels; one machine code serves all fleets."""
TWIN_S_A_REQUEST = 1.5e-4
"""Seconds of the plain twin for a request, on a laptop core (5,000 to 15,000 requests a second)."""
_RESULTS = (
    "arrival_s",
    "scheduled_s",
    "first_token_s",
    "finish_s",
    "preemptions",
    "instance",
    "state",
    "generated_tokens",
    "cached_tokens",
    "prompt_end_s",
    "answer_scheduled_s",
    "moved_s",
    "answered_by",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind beside the requests' own times."""

    totals: Any
    """(N,) records `records.TOTAL`."""
    between_tokens: Floats
    """Counts by bin of time between tokens (`records.HISTOGRAM_*`)."""
    series: Any
    """(E,) records `records.SERIES`."""


def serve(
    requests: Requests,
    linear_s: Floats,
    limits: Limits,
    instances: int,
    chains: Chains | None = None,
    stages: PipelineStages | None = None,
) -> Outcome:
    """Run all requests through one pool and write scheduled, first-token and finish times into `requests`.

    Args:
        requests: see `Requests`.
        linear_s: (G,) seconds of an iteration by its computed tokens, G above budget + sequences; or (2, G) with the
            part that is each rank's own (`limits.ranks`).
        limits: of each instance.
        instances: how many.
        chains: what prompts have in common, for `limits.caching`; None: as the requests say.
        stages: of the pipelines that the instances are lanes of; None: each is of its own.
    """
    return serve_fleet(requests, single_pool(limits, linear_s, instances, stages=stages), chains)


def serve_fleet(requests: Requests, fleet: Fleet, chains: Chains | None = None) -> Outcome:
    """The same through several pools.

    Args:
        requests: see `serve`.
        fleet: limits and iterations by pool, lanes, and how caches move between them.
        chains: see `serve`; with blocks of `fleet.block` tokens.
    """
    check(requests, fleet)
    if runs_on_twin(KERNEL, TWIN_S_A_REQUEST * len(requests)):
        return serve_fleet_in_python(requests, fleet, chains=chains)
    if fleet.caching and chains is None:
        chains = chains_of(requests, fleet.block)
    if chains is None or not fleet.caching:
        return _run(requests, fleet, None)
    if (
        chains.common == 0 and not requests.keep_s.any()
    ):  # prompts have nothing in common: only preempted requests find their own blocks
        plain = replace(requests, arrival_s=requests.arrival_s.copy(), cached_tokens=np.zeros(len(requests), np.int32))
        outcome = _run(plain, fleet, None)
        if not outcome.totals["preemptions"].any():
            for name in _RESULTS:
                setattr(requests, name, getattr(plain, name))
            return outcome
    return _run(requests, fleet, chains)


def long_enough(fleet: Fleet, requests: Requests) -> Fleet:
    """Tables up to the longest whole prompt, which a policy that does not cut prompts computes in one iteration."""
    if all(own.chunked for own in fleet.limits) or not len(requests):
        return fleet
    longest = int((requests.input_tokens + requests.output_tokens).max())
    longest += max(own.max_seqs * own.step_tokens for own in fleet.limits)
    return replace(fleet, tables=extend_table(fleet.tables, longest + 1))


def serve_in_python(
    requests: Requests, linear_s: Floats, limits: Limits, instances: int, rules: LoopRules | None = None
) -> Outcome:
    """Run all requests through one pool by the reference loop, which takes rules of one's own and is slower.

    Args:
        requests: see `serve`.
        linear_s: see `serve`.
        limits: see `serve`.
        instances: how many.
        rules: in place of those that the limits name.
    """
    return serve_fleet_in_python(requests, single_pool(limits, linear_s, instances), rules)


def serve_fleet_in_python(
    requests: Requests, fleet: Fleet, rules: LoopRules | None = None, *, chains: Chains | None = None
) -> Outcome:
    """Run all requests through the pools of a fleet by the reference loop.

    Args:
        requests: see `serve`.
        fleet: see `serve_fleet`.
        rules: in place of those that the limits name.
        chains: see `serve_fleet`.
    """
    record, fleet = Recorder(fleet.lanes, fleet.limits[0].every), long_enough(fleet, requests)
    reference.serve_fleet(requests, fleet, rules, chains=chains, record=record)
    return Outcome(record.totals, record.between_tokens, record.series)


def _run(requests: Requests, fleet: Fleet, chains: Chains | None) -> Outcome:
    from windtunnel.serving.event_loop.kernel_inputs import loop_of, results_of
    from windtunnel.serving.event_loop.kernels.records import SERIES
    from windtunnel.serving.event_loop.kernels.serve import serve as serve_jitted

    fleet = long_enough(fleet, requests)
    _check_size(requests, fleet)
    loop, count = loop_of(requests, fleet, chains), len(requests)
    ended = loop.requests["state"][-count:]
    series = np.zeros(1024 if fleet.limits[0].every else 0, SERIES)
    with counting("requests", lambda: (float(np.isin(ended, (DONE, REJECTED, CANCELLED)).sum()), float(count))):
        while not serve_jitted(loop, series):
            series = np.concatenate([series, np.zeros_like(series)])
    mark_compiled(KERNEL)
    results_of(loop, requests, fleet)
    if chains is not None:
        requests.cached_tokens = loop.requests["hit"][:count].copy()
    return Outcome(loop.fleet.totals, loop.histogram, series[: loop.counts["kept"][0]])


def _check_size(requests: Requests, fleet: Fleet) -> None:
    """Refuse a run whose queues and heaps do not fit in memory.

    Raises:
        BadInput: they do not.
    """
    most = min(max(own.max_seqs for own in fleet.limits), len(requests)) + 1
    block = max(own.block for own in fleet.limits)
    what = f"queues and caches of {fleet.lanes:,} instances"
    require_bytes(fleet.lanes * (4.0 * most + 8.0 * block), "serving.pools", what)
    require_bytes(400.0 * len(requests), "serving.traffic.num_requests", f"{len(requests):,} requests")
