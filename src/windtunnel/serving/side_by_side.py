"""Several deployments in one loop: calls of one program go to different models on instances of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.errors import BadInput, Problem
from windtunnel.serving.deployment import Deployment, with_longer_tables
from windtunnel.serving.event_loop import run as event_loop
from windtunnel.serving.event_loop.fleet import join_fleets
from windtunnel.serving.event_loop.prefix_chains import chains_of
from windtunnel.serving.event_loop.prompt_content import taken
from windtunnel.serving.event_loop.request_graph import Dependencies
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.results.build_result import ServedRun, build_result
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.simulate import KEEP_EVENTS_BELOW, limit_lengths, needs_reference_loop


def serve_side_by_side(deployments: Sequence[Deployment], requests: Requests) -> tuple[ServingResult, ...]:
    """Serve requests on several deployments, each those whose `pool` is its place.

    Args:
        deployments: with the same traffic, router and engine; none hands caches on between pools.
        requests: what is sent; times are written into it.

    Returns:
        One result for each deployment, of its own requests.

    Raises:
        BadInput: a deployment needs rules that run for one model alone.
    """
    for d in deployments:
        if needs_reference_loop(d):
            rule = "has queues, tiers, autoscaling or other rules that run for one model alone; leave them out"
            raise BadInput(Problem("programs.verifier", rule, d.model.name))
    every = max(-(-len(requests) // KEEP_EVENTS_BELOW), 1)
    rows = [np.flatnonzero(requests.pool == g) for g in range(len(deployments))]
    longer = [_longer(d, requests, own) for d, own in zip(deployments, rows, strict=True)]
    fleet = join_fleets([d.fleet(every) for d in longer])
    shared = longer[0].serving.traffic.shared_prefix_tokens
    sent, notes = requests.input_tokens.copy(), []
    for d, own in zip(longer, rows, strict=True):
        part = _part(requests, own)
        _, found = limit_lengths(d, part)
        requests.input_tokens[own], requests.output_tokens[own] = part.input_tokens, part.output_tokens
        notes.append(tuple(found))
    chains = chains_of(requests, fleet.block, shared) if fleet.caching else None
    outcome = event_loop.serve_fleet(requests, fleet, chains)
    requests.input_tokens = sent
    ends = np.cumsum([d.lanes for d in longer])
    results = []
    for g, (d, own) in enumerate(zip(longer, rows, strict=True)):
        first = int(ends[g]) - d.lanes
        mine = replace(outcome, totals=outcome.totals[first : ends[g]], series=_series(outcome.series, first, ends[g]))
        results.append(
            build_result(
                ServedRun(
                    deployment=d,
                    requests=_part(requests, own, first=first),
                    outcome=mine,
                    every=every,
                    assumed=(),
                    notes=notes[g],
                    scaling=None,
                    held_share=1.0,
                    memory=None,
                )
            )
        )
    return tuple(results)


def _longer(d: Deployment, requests: Requests, rows: Ints) -> Deployment:
    """The deployment with tables for its longest request."""
    if not len(rows):
        return d
    longest = int((requests.input_tokens[rows] + requests.output_tokens[rows]).max())
    return with_longer_tables(d, min(longest, d.instance.max_model_len or longest))


def _series(series: Any, first: int, end: int) -> Any:
    """Events of lanes from `first` up to `end`, numbered from 0."""
    own = series[(series["instance"] >= first) & (series["instance"] < end)].copy()
    own["instance"] -= first
    return own


def _part(requests: Requests, rows: Ints, *, first: int = 0) -> Requests:
    """Some of the requests, as one that waits for nothing of the others; instances are numbered from `first`."""
    columns: dict[str, Any] = {}
    for f in fields(Requests):
        value = getattr(requests, f.name)
        if isinstance(value, np.ndarray):
            columns[f.name] = value[rows]
    count = len(rows)
    columns["instance"] = np.where(columns["instance"] >= 0, columns["instance"] - first, -1).astype(np.int32)
    columns["follow"] = np.full(count, -1, np.int32)
    none = np.zeros(0, np.int32)
    alone = Dependencies(np.zeros(count + 1, np.int64), none, np.arange(count, dtype=np.int32))
    content = None if requests.content is None else taken(requests.content, rows)
    return Requests(**columns, content=content, after=alone)
