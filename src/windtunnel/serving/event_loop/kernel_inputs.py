"""Requests and a fleet → the arrays that the jitted loop reads, and back. Importing it imports Numba."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from windtunnel.serving.event_loop.fleet import FirstToken, Fleet
from windtunnel.serving.event_loop.instance_limits import Limits, Router
from windtunnel.serving.event_loop.kernels import state
from windtunnel.serving.event_loop.kernels.records import (
    CLASSES,
    COUNTS,
    HISTOGRAM_BINS,
    INSTANCE,
    JOINT,
    KV_TRANSFER,
    LIMITS,
    NODE,
    REQUEST,
    TOOLS,
    TOTAL,
)
from windtunnel.serving.event_loop.prefix_chains import Chains
from windtunnel.serving.event_loop.request_graph import parents_of
from windtunnel.serving.event_loop.requests import CANCELLED, DONE, REJECTED, Requests
from windtunnel.serving.iteration.pipeline_stages import PipelineStages

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


_NO_INTS, _NO_INT32S, _NO_FLOATS = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)


def loop_of(requests: Requests, fleet: Fleet, chains: Chains | None) -> state.Loop:
    """All that the loop reads and changes, before its first event.

    Args:
        requests: see `Requests`.
        fleet: with tables that are long enough.
        chains: what prompts have in common; None: no cache finds content again.
    """
    rows = _requests(requests, fleet)
    order, graph, pins = requests.order(), _graph(requests), _pins(requests, chains)
    lanes = _fleet(fleet, rows, chains)
    tree = _tree(chains, fleet.lanes, len(requests), len(rows))
    most = len(graph.joints) + (2 * len(rows) if len(pins.start) else 0)
    if fleet.limits[0].concurrency or len(order) < len(rows):
        most += len(rows)
    return state.Loop(
        requests=rows,
        order=order,
        fleet=lanes,
        tree=tree,
        transfer=_transfer(fleet),
        pipelines=_pipelines(fleet),
        graph=graph,
        pins=pins,
        routing=_routing(requests, fleet, rows),
        events=state.Events(np.zeros(most, np.int64), np.zeros(most), np.zeros(1, np.int64)),
        counts=np.zeros(1, COUNTS),
        ended=np.zeros(lanes.heaps.shape[1], np.int64),
        histogram=np.zeros(HISTOGRAM_BINS),
    )


def results_of(loop: state.Loop, requests: Requests, fleet: Fleet) -> None:
    """Write what a run has left behind into its requests."""
    count = len(requests)
    asked, answered = loop.requests[:count], loop.requests[:count]
    if fleet.kv_transfer is not None:
        answered = loop.requests[count:]
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
    requests.arrival_s = asked["arrival"].copy()
    requests.scheduled_s, requests.first_token_s = asked["scheduled"].copy(), asked["first"].copy()
    requests.finish_s, requests.preemptions = answered["finish"].copy(), asked["preemptions"].copy()
    requests.instance, requests.state = asked["instance"].copy(), answered["state"].copy()
    made = np.where(requests.state == CANCELLED, np.minimum(asked["made"], requests.output_tokens), 0)
    requests.generated_tokens = np.where(requests.state == DONE, requests.output_tokens, made).astype(np.int32)
    if requests.after is not None:
        requests.after.over_s[:] = loop.graph.joints["over"]


def _requests(requests: Requests, fleet: Fleet) -> Any:
    """Records of `REQUEST`: prompts, and where caches move between pools answers behind them."""
    count = len(requests)
    rows = np.zeros(count if fleet.kv_transfer is None else 2 * count, REQUEST)
    for name, own in _FIELDS:
        rows[name][:count] = getattr(requests, own)
        rows[name][count:] = 0 if own == "cached_tokens" else getattr(requests, own)[: len(rows) - count]
    for name in ("scheduled", "first", "finish"):
        rows[name] = np.nan
    rows["arrival"][count:] = np.nan  # of answers: when their cache came
    for name in _LINKS:
        rows[name] = -1
    return rows


def _fleet(fleet: Fleet, rows: Any, chains: Chains | None) -> state.Fleet:
    """Limits, iterations and instances that have nothing to do yet."""
    limits, n = np.zeros(len(fleet.limits), LIMITS), fleet.lanes
    for f in fields(Limits):
        limits[f.name] = [getattr(own, f.name) for own in fleet.limits]
    instances = np.zeros(n, INSTANCE)
    instances["end"], instances["pool"], instances["prefill_only"] = np.inf, fleet.pool, fleet.prefill_only
    instances["ratio"] = limits["ratio_start"][fleet.pool]
    for name in _LISTS:
        instances[name] = -1
    instances["line"] = -1 if fleet.pipelines is None else fleet.pipelines
    if chains is None:
        limits["caching"] = 0
    else:
        instances["common"], instances["row"] = chains.common, np.arange(n) * chains.common
        instances["single"] = (n - 1) * chains.common
    most = min(limits["max_seqs"].max(), len(rows)) + 1
    return state.Fleet(
        limits=limits,
        linear=np.ascontiguousarray(fleet.tables),
        instances=instances,
        queues=np.full((n, CLASSES, 2), -1, np.int32),
        heaps=np.empty((n, most), np.int32),
        turns=np.zeros((n, limits["block"].max()), np.int64),
        totals=np.zeros(n, TOTAL),
        tokens=np.zeros(n),
        fresh=np.zeros(n, np.bool_),
    )


def _tree(chains: Chains | None, lanes: int, count: int, rows: int) -> state.PrefixTree:
    """Content of prompts and answers; nothing where no cache finds it again."""
    if chains is None:
        return state.PrefixTree(np.zeros(0, NODE), _NO_INTS, _NO_INT32S, _NO_INT32S)
    nodes = np.zeros(len(chains.size) + (lanes - 1) * chains.common, NODE)
    start = np.append(chains.start, np.full(rows - count, chains.start[-1]))
    return state.PrefixTree(nodes, start, chains.nodes, chains.size)


def _transfer(fleet: Fleet) -> state.Transfer:
    """The KV transfer between pools; nothing where no pool hands its caches on."""
    own = fleet.kv_transfer
    if own is None:
        return state.Transfer(np.zeros((3, 0, 0)), np.zeros((0, 0)), _NO_INTS, _NO_FLOATS, np.zeros(0, KV_TRANSFER))
    rule = np.zeros(1, KV_TRANSFER)
    rule["control"], rule["pieces"], rule["chunk"] = own.control_s, own.pieces, own.chunk
    rule["early"], rule["first"], rule["router"] = own.early, own.first, own.router
    return state.Transfer(own.token_s, own.fixed_s, own.port, np.zeros(int(own.port.max()) + 1), rule)


def _pipelines(fleet: Fleet) -> state.Pipelines:
    """The pipelines of a fleet; nothing without any."""
    lines = fleet.pipelines
    if lines is None:
        return state.Pipelines(_NO_INTS, _NO_INTS, _NO_INTS, np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)))
    first = np.searchsorted(np.maximum.accumulate(lines), np.arange(int(lines.max()) + 1))
    stages = [fleet.stages[p] for p in fleet.pool[first]]
    most = max(own.count for own in stages if own is not None)
    shares, costs = np.zeros((len(fleet.limits), most)), np.zeros((len(fleet.limits), len(PipelineStages.SECONDS)))
    for p, own in enumerate(fleet.stages):
        if own is not None:
            shares[p, : own.count] = own.shares
            costs[p] = [getattr(own, name) for name in PipelineStages.SECONDS]
    return state.Pipelines(
        first=first,
        lanes=np.bincount(lines[lines >= 0]),
        stages=np.array([own.count for own in stages if own is not None], np.int64),
        shares=shares,
        costs=costs,
        free=np.zeros((len(first), most + 1)),
    )


def _graph(requests: Requests) -> state.Graph:
    """The graph of calls; nothing where requests follow one another at most."""
    own = requests.after
    if own is None:
        ints, none = _NO_INTS, _NO_INT32S
        joints, tools = np.zeros(0, JOINT), np.zeros(0, TOOLS)
        return state.Graph(ints, none, none, none, none, none, ints, joints, tools, ints, _NO_FLOATS)
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
    return state.Graph(
        start=own.start.astype(np.int64),
        children=own.children.astype(np.int32),
        task=task,
        pending=needed.astype(np.int32),
        slack=(own.parents - needed).astype(np.int32),
        left=np.bincount(task).astype(np.int32),
        stack=np.zeros(2 * own.nodes + 2, np.int64),
        joints=joints,
        servers=tools,
        line=np.zeros(int(users.sum()), np.int64),
        ready_s=np.zeros(int(users.sum())),
    )


def _pins(requests: Requests, chains: Chains | None) -> state.Pins:
    """Blocks that calls keep; nothing where none does."""
    if chains is None or not requests.keep_s.any():
        return state.Pins(_NO_INTS, _NO_INT32S, _NO_INTS, _NO_INTS)
    start, parents = parents_of(requests.after, requests.follow)
    nodes = len(start) - 1
    return state.Pins(start, parents, np.zeros(nodes, np.int64), np.zeros(nodes + 1, np.int64))


def _routing(requests: Requests, fleet: Fleet, rows: Any) -> state.Routing:
    """Groups of instances, and numbers of gangs, each of which is at home nowhere yet."""
    groups = np.append(fleet.lane_groups, [[fleet.entries, fleet.lanes]], axis=0)
    random = np.full(len(groups), np.uint64(fleet.limits[0].seed))
    random[-1] += np.uint64(1)
    routers, gangs = [fleet.limits[0].router] + ([] if fleet.kv_transfer is None else [fleet.kv_transfer.router]), 1
    if Router.GANG in routers:
        names, gang = np.unique(requests.group, return_inverse=True)
        rows["gang"], gangs = np.resize(gang, len(rows)), len(names)
    homes = np.full((len(groups), gangs), -1, np.int32)
    return state.Routing(groups, homes, np.zeros(len(groups), np.int64), random)
