"""Requests through instances, jitted: arrays in, arrays out."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.kernel_cache import mark_compiled, runs_on_twin
from windtunnel.machine_memory import require_bytes
from windtunnel.progress import counting
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop.checks import check
from windtunnel.serving.event_loop.fleet import FirstToken, Fleet, extend_table, single_pool
from windtunnel.serving.event_loop.instance_limits import Limits, Router
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.prefix_chains import Chains, chains_of
from windtunnel.serving.event_loop.recorder import Recorder
from windtunnel.serving.event_loop.request_graph import parents_of
from windtunnel.serving.event_loop.requests import CANCELLED, DONE, REJECTED, Requests
from windtunnel.serving.iteration.pipeline_stages import PipelineStages

if TYPE_CHECKING:
    pass

_FIELDS = (
    ("arrival", "arrival_s"),
    ("delay", "delay_s"),
    ("input", "input_tokens"),
    ("output", "output_tokens"),
    ("cached", "cached_tokens"),
    ("priority", "priority"),
    ("group", "group"),
    ("follow", "follow"),
    ("pool", "pool"),
    ("reused", "reused_tokens"),
    ("keep", "keep_s"),
)
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
_LINKS = ("behind", "next_prompt", "before", "after", "instance")
_LISTS = (
    "prompt_head",
    "prompt_tail",
    "newest",
    "oldest",
    "youngest",
    "admitted",
    "last_admitted",
    "ready",
    "last_ready",
    "cancelled",
    "first_pin",
    "last_pin",
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
    if runs_on_twin(_kernel_of(fleet, requests), TWIN_S_A_REQUEST * len(requests)):
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


def _kernel_of(fleet: Fleet, requests: Requests) -> str:
    """Name among compiled kernels of the specialisation that runs requests through a fleet."""
    features = (
        ("_caching", fleet.caching),
        ("_transfer", fleet.kv_transfer is not None),
        ("_stages", fleet.pipelines is not None),
        ("_graph", requests.after is not None),
        ("_pins", fleet.caching and bool(requests.keep_s.any())),
    )
    return "serving/event_loop/serve" + "".join(name for name, has in features if has)


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
    from windtunnel.serving.event_loop.kernels import records as record_types
    from windtunnel.serving.event_loop.kernels.serve import serve as serve_jitted

    fleet = long_enough(fleet, requests)
    _check_size(requests, fleet)
    count, instances, flow = len(requests), fleet.lanes, _flow(fleet)
    rows = np.zeros(count if flow is None else 2 * count, record_types.REQUEST)
    for name, own in _FIELDS:
        rows[name][:count] = getattr(requests, own)
        rows[name][count:] = 0 if own == "cached_tokens" else getattr(requests, own)[: len(rows) - count]
    for name in ("scheduled", "first", "finish"):
        rows[name] = np.nan
    rows["arrival"][count:] = np.nan  # of answers: when their cache came
    for name in _LINKS:
        rows[name] = -1
    limits = np.zeros(len(fleet.limits), record_types.LIMITS)
    for f in fields(Limits):
        limits[f.name] = [getattr(own, f.name) for own in fleet.limits]
    state = np.zeros(instances, record_types.INSTANCE)
    state["end"], state["pool"], state["prefill_only"] = np.inf, fleet.pool, fleet.prefill_only
    state["ratio"] = limits["ratio_start"][fleet.pool]
    for name in _LISTS:
        state[name] = -1
    pipes, graph = _pipes(fleet), _graph(requests)
    state["line"] = -1 if fleet.pipelines is None else fleet.pipelines
    pins = _pins(requests, state) if requests.keep_s.any() and chains is not None else None
    rows["gang"], homes = _homes(requests, fleet, len(rows))
    features = flow, pipes, graph, pins, fleet.lane_groups, homes
    shared: tuple[Any, ...] = (None, None, None, None, *features)
    if chains is not None:
        state["common"], state["row"] = chains.common, np.arange(instances) * chains.common
        state["single"] = (instances - 1) * chains.common
        nodes = np.zeros(len(chains.size) + (instances - 1) * chains.common, record_types.NODE)
        start = np.append(chains.start, np.full(len(rows) - count, chains.start[-1]))
        shared = nodes, start, chains.nodes, chains.size, *features
    ended = rows["state"][-count:]
    with counting("requests", lambda: (float(np.isin(ended, (DONE, REJECTED, CANCELLED)).sum()), float(count))):
        totals, histogram, series = serve_jitted(rows, requests.order(), fleet.tables, limits, state, *shared)
    mark_compiled(_kernel_of(fleet, requests))
    asked, answered = rows[:count], rows[:count]
    if flow is not None:
        assert fleet.kv_transfer is not None
        answered = rows[count:]
        split = np.isin(asked["state"], (DONE, REJECTED)) & (answered["instance"] >= 0)
        requests.prompt_end_s = np.where(split, asked["first"], np.nan)
        requests.moved_s = np.where(split, answered["arrival"], np.nan)
        requests.answer_scheduled_s = np.where(split, answered["scheduled"], np.nan)
        requests.answered_by = np.where(split, answered["instance"], -1).astype(np.int32)
        answered = np.where(split, answered, asked)
        asked = asked.copy()
        asked["preemptions"] += np.where(split, answered["preemptions"], 0)
        if fleet.kv_transfer.first is not FirstToken.PREFILL:
            asked["first"] = answered["first"]
    if chains is not None:
        requests.cached_tokens = asked["hit"].copy()
    requests.arrival_s = asked["arrival"].copy()
    requests.scheduled_s, requests.first_token_s = asked["scheduled"].copy(), asked["first"].copy()
    requests.finish_s, requests.preemptions = answered["finish"].copy(), asked["preemptions"].copy()
    requests.instance, requests.state = asked["instance"].copy(), answered["state"].copy()
    made = np.where(requests.state == CANCELLED, np.minimum(asked["made"], requests.output_tokens), 0)
    requests.generated_tokens = np.where(requests.state == DONE, requests.output_tokens, made).astype(np.int32)
    if graph is not None and requests.after is not None:
        requests.after.over_s[:] = graph[7]["over"]
    return Outcome(totals, histogram, series)


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


def _flow(fleet: Fleet) -> tuple[Any, ...] | None:
    """The KV transfer between pools as the jitted loop reads it; None where no pool hands its caches on."""
    from windtunnel.serving.event_loop.kernels.records import KV_TRANSFER

    own = fleet.kv_transfer
    if own is None:
        return None
    record = np.zeros(1, KV_TRANSFER)
    record["control"], record["pieces"], record["chunk"] = own.control_s, own.pieces, own.chunk
    record["early"], record["first"], record["router"] = own.early, own.first, own.router
    record["entries"] = fleet.entries
    return own.token_s, own.fixed_s, own.port, np.zeros(int(own.port.max()) + 1), record


def _pipes(fleet: Fleet) -> tuple[Any, ...] | None:
    """The pipelines of a fleet as the jitted loop reads them; None without any."""
    lines = fleet.pipelines
    if lines is None:
        return None
    first = np.searchsorted(np.maximum.accumulate(lines), np.arange(int(lines.max()) + 1))
    lanes = np.bincount(lines[lines >= 0])
    stages = [fleet.stages[p] for p in fleet.pool[first]]
    most = max(own.count for own in stages if own is not None)
    shares, costs = np.zeros((len(fleet.limits), most)), np.zeros((len(fleet.limits), len(PipelineStages.SECONDS)))
    for p, own in enumerate(fleet.stages):
        if own is not None:
            shares[p, : own.count] = own.shares
            costs[p] = [getattr(own, name) for name in PipelineStages.SECONDS]
    counts = np.array([own.count for own in stages if own is not None], np.int64)
    return first, lanes, counts, shares, costs, np.zeros((len(first), most + 1))


def _graph(requests: Requests) -> tuple[Any, ...] | None:
    """The graph of calls as the jitted loop reads it (see `kernels.serve.serve`); None without one."""
    from windtunnel.serving.event_loop.kernels.records import JOINT, TOOLS

    own = requests.after
    if own is None:
        return None
    needed, task = own.needed(), own.tasks_of_nodes()
    joints = np.zeros(own.joints, JOINT)
    joints["over"], joints["server"] = np.nan, -1
    for name, column in (("seconds", own.seconds), ("server", own.server)):
        if column is not None:
            joints[name] = column
    for name, ranges in (("calls", own.cancels), ("joints", own.cancels_joints)):
        if ranges is not None:
            joints[f"{name}_from"] = ranges[:, 0]
            joints[f"{name}_to"] = np.maximum(ranges[:, 0], ranges[:, 1])
    tools = np.zeros(0 if own.servers is None else len(own.servers), TOOLS)
    tools["free"] = own.servers if own.servers is not None else 0
    users = np.bincount(joints["server"][joints["server"] >= 0], minlength=len(tools))
    tools["first"] = np.cumsum(users) - users
    return (
        own.start.astype(np.int64),
        own.children.astype(np.int32),
        task,
        needed.astype(np.int32),
        (own.parents - needed).astype(np.int32),
        np.bincount(task).astype(np.int32),
        np.zeros(2 * own.nodes + 2, np.int64),
        joints,
        tools,
        np.zeros(int(users.sum()), np.int64),
        np.zeros(int(users.sum())),
    )


def _pins(requests: Requests, instances: Any) -> tuple[Any, ...]:
    """Blocks that calls keep, as the jitted loop reads them (see `kernels.serve.serve`)."""
    start, parents = parents_of(requests.after, requests.follow)
    nodes = len(start) - 1
    return instances, start, parents, np.zeros(nodes, np.int64), np.zeros(nodes + 1, np.int64)


def _homes(requests: Requests, fleet: Fleet, rows: int) -> tuple[Any, Any]:
    """Number of each row's gang, and where each gang is at home: nowhere yet. Nothing without a router of gangs."""
    routers = [fleet.limits[0].router] + ([] if fleet.kv_transfer is None else [fleet.kv_transfer.router])
    groups = len(fleet.lane_groups)
    if Router.GANG not in routers:
        return np.zeros(rows, np.int32), np.full((groups + 1, 1), -1, np.int32)
    names, gang = np.unique(requests.group, return_inverse=True)
    return np.resize(gang, rows).astype(np.int32), np.full((groups + 1, len(names)), -1, np.int32)
