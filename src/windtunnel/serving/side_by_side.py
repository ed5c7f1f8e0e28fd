"""Several deployments in one loop: calls of one program go to different models on instances of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.errors import UNSET, BadInput, Problem
from windtunnel.serving.deployment import Deployment, with_longer_tables
from windtunnel.serving.event_loop import run as event_loop
from windtunnel.serving.event_loop.fleet import Fleet, join_fleets
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.prefix_chains import Chains, chains_of
from windtunnel.serving.event_loop.program_rest import rest_of_programs
from windtunnel.serving.event_loop.prompt_content import taken
from windtunnel.serving.event_loop.request_graph import Dependencies
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.kv_tiers.twin_memory import Memory
from windtunnel.serving.results.build_result import ServedRun, build_result
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.run_setup.kv_tiers import memory_of
from windtunnel.serving.run_setup.python_hooks import hooks_of
from windtunnel.serving.run_setup.sm_shares import shares_of
from windtunnel.serving.simulate import KEEP_EVENTS_BELOW, limit_lengths, needs_reference_loop


def serve_side_by_side(deployments: Sequence[Deployment], requests: Requests) -> tuple[ServingResult, ...]:
    """Serve requests on several deployments, each those whose `pool` is its place.

    Queue and router are those of the first deployment; each has batch policies and KV tiers of its own.

    Args:
        deployments: with the same traffic, router and engine; none hands caches on between pools.
        requests: what is sent; times are written into it.

    Returns:
        One result for each deployment, of its own requests.

    Raises:
        BadInput: a deployment needs rules that run for one model alone.
    """
    if alone := [problem for d in deployments for problem in _of_one_model(d)]:
        raise BadInput(list(dict.fromkeys(alone)))
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
    outcome, memory = _run(longer, requests, fleet, chains)
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
                    memory=_memory_from(memory, fleet, first, int(ends[g])),
                )
            )
        )
    return tuple(results)


def _of_one_model(d: Deployment) -> list[Problem]:
    """Settings of a deployment that one loop has for one model alone."""
    rule = "runs for one model alone, and {name} has instances next to another's; leave it out"
    serving, pools = d.serving, d.serving.pools
    first = d.pools[0].instance
    stated = (
        ("serving.autoscale", serving.autoscale),
        ("serving.mesh", serving.mesh),
        ("serving.pools[0].role", any(p.role != "mixed" for p in pools) or None),
        ("serving.pools[0].admission", first.admission),
        ("serving.pools[0].kv.swap", pools[0].kv.swap),
        ("serving.pools[0].kv.lending", pools[0].kv.lending or None),
        ("serving.speculation", (first.drafting is not None and first.drafting.variation != "none") or None),
    )
    return [Problem(name, rule.format(name=d.model.name), UNSET) for name, value in stated if value is not None]


def _run(
    deployments: Sequence[Deployment], requests: Requests, fleet: Fleet, chains: Chains | None
) -> tuple[event_loop.Outcome, Memory | None]:
    """Run the jitted loop, or the one in Python where some rule of a deployment is written there."""
    if not any(needs_reference_loop(d) for d in deployments):
        return event_loop.serve_fleet(requests, fleet, chains), None
    count, pools = len(requests), [(d, p) for d in deployments for p in d.pools]
    hooks = [hooks_of(p.instance, d.serving, d.limits, count, needs_python=True) for d, p in pools]
    found = [one for one in hooks if one is not None]
    queue = found[0].queue
    if queue.reads_programs:
        queue.context = replace(queue.context, rest=rest_of_programs(requests))
    memory = _memory(deployments, fleet)
    rules = LoopRules(
        policies=[one.policy for one in found],
        router=found[0].router,
        queue=queue,
        memory=memory,
        execution=shares_of(deployments, fleet, memory),
    )
    return event_loop.serve_fleet_in_python(requests, fleet, rules, chains=chains), memory


def _memory(deployments: Sequence[Deployment], fleet: Fleet) -> Memory | None:
    """KV tiers of all deployments; None where none has any."""
    parts = [memory_of(d, d.fleet(0).pool.tolist()) for d in deployments]
    if all(one is None for one in parts):
        return None
    own = [(part, len(d.pools)) for part, d in zip(parts, deployments, strict=True)]
    return Memory(
        plans=tuple(x for m, n in own for x in (m.plans if m else ((),) * n)),
        layers=tuple(x for m, n in own for x in (m.layers if m else (1,) * n)),
        pool=fleet.pool.tolist(),
        block_tokens=fleet.block,
        similar=tuple(x for m, n in own for x in (m.similar if m else (None,) * n)),
        prefetch=tuple(x for m, n in own for x in (m.prefetch if m else (False,) * n)),
        seed=deployments[0].limits.seed,
    )


def _memory_from(memory: Memory | None, fleet: Fleet, first: int, end: int) -> Memory | None:
    """Levels of the lanes from `first` up to `end`; None where they have none."""
    if memory is None or not any(memory.caches[first:end]):
        return None
    pools = set(fleet.pool[first:end].tolist())
    stores = {p: store for p, store in memory.stores.items() if p in pools}
    return replace(memory, caches=memory.caches[first:end], stores=stores)


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
