"""The request loop of serving, jitted. `reference.py` does the same in Python: same arithmetic, same order, same bits.

Time moves from one event to the next: an arrival, the end of an iteration that holds prompts, or the end of a run of
decode steps. Between two events a decoding batch does not change, and its steps grow evenly (every sequence has one
token more in the cache), so a run of any length has a closed form. Cost is per event, not per token.

A cached token count lets a prompt skip work; blocks of the cache are counted exactly: sequences that need a new block
at the same step are counted together, so that nothing is touched per step.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.jit import kernel
from windtunnel.serving.event_loop.kernels.arrivals import arrive, wake
from windtunnel.serving.event_loop.kernels.batching import form
from windtunnel.serving.event_loop.kernels.completion import complete
from windtunnel.serving.event_loop.kernels.disaggregation import pass_on, prompt_ended, send
from windtunnel.serving.event_loop.kernels.events import file_event, remove_first_event
from windtunnel.serving.event_loop.kernels.graph import joint_event, request_over, send_heads
from windtunnel.serving.event_loop.kernels.pins import unpin
from windtunnel.serving.event_loop.kernels.pipeline import join_pipeline
from windtunnel.serving.event_loop.kernels.records import CANCELLED, CLASSES, HELD, HISTOGRAM_BINS, SERIES, TOTAL, Array


@kernel()
def serve(
    requests: Array,
    order: Array,
    linear: Array,
    limits: Array,
    instances: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    flow: Array,
    pipes: Array,
    graph: Array,
    pins: Array,
    groups: Array,
    homes: Array,
) -> Any:
    """Run all requests through a set of instances.

    Args:
        requests: (R,) of `REQUEST`; seconds, tokens and follow-ups set. With KV transfers (2·R,): first prompts,
            then answers.
        order: (S,) requests that arrive by the clock, by time; under closed-loop concurrency, those to send in order.
        linear: (P, 2, G) by pool: seconds of an iteration that computes g tokens, for every g up to the budget and all
            decodes; and the part of them that one rank of attention data parallelism does for its own tokens. With
            drafts (P, 4, G): seconds that drafting for g sequences adds, and g tokens of prompts that the draft reads.
        limits: (P,) of `LIMITS`.
        instances: (N,) of `INSTANCE`, zeroed but for lists (−1) and ends (inf).
        nodes: of `NODE`, zeroed: a row of common nodes for each instance, then the others. This and the next three are
            None without prefix caching, for which the loop is compiled without any of it.
        chain_at: (R + 1,) where each request's nodes begin in `chain`.
        chain: (C,) nodes of the requests' prompts and answers, from the start.
        size: (U,) blocks of each node.
        flow: seconds per token, latencies, ports, when ports are free, and one record of `KV_TRANSFER`; None where
            every instance answers the prompts that it computes, for which the loop is compiled without it.
        pipes: of L pipelines: (L,) first instance of each, how many it has, and how many stages; (P, S) share of each
            stage in the layers' seconds; (P, 6) seconds of `PipelineStages` beside the layers; (L, S + 1) zeros, when
            its scheduler and stages are free. None without pipelines, for which the loop is compiled without them.
        graph: of calls that wait for several others (`run._graph`): (R + J + 1,) where each node's children begin;
            (E,) children; (R + J,) task of each node, parents it still waits for, and how many may be cancelled;
            (T,) nodes of each task that are not over; room for a stack; (J,) of `JOINT`; (C,) of `TOOLS`; (J,) numbers
            and times of queued joints, class by class. None where requests follow one another at most, for which the
            loop is compiled without it.
        pins: instances; (R + J + 1,) where the parents of each node begin; parents; (R + J,) zeros; room for a stack.
            None where no call keeps or drops its blocks, for which the loop is compiled without it.
        groups: (G, 2) lanes [from, to) that requests of each `pool` are routed to.
        homes: (G + 1, K) −1: the instance of each gang by group; last, the one that answers.

    Returns:
        totals (N,) of `TOTAL`, the histogram of times between tokens, and events (E,) of `SERIES`.
    """
    n = len(instances)
    base = limits[0]
    most = min(limits["max_seqs"].max(), len(requests)) + 1
    heaps = np.empty((n, most), np.int32)
    queues = np.full((n, CLASSES, 2), -1, np.int32)
    turns = np.zeros((n, limits["block"].max()), np.int64)
    totals = np.zeros(n, TOTAL)
    histogram = np.zeros(HISTOGRAM_BINS, np.float64)
    series = np.zeros(1024 if base.every else 0, SERIES)
    kept, events = 0, 0
    ended = np.empty(most, np.int64)
    fresh = np.zeros(n, np.bool_)
    tokens = np.zeros(n, np.float64)
    state = np.full(len(groups), np.uint64(base.seed))
    turn = np.zeros(len(groups), np.int64)
    asking = np.zeros(2, np.uint64)
    asking[0] = np.uint64(base.seed + 1)
    most_filed = len(requests) if base.concurrency or len(order) < len(requests) else 0
    first_joint = 4 * len(requests)
    first_pin = first_joint
    if graph is not None:
        most_filed += len(graph[7])
        first_pin += len(graph[7])
    if pins is not None:
        most_filed += 2 * len(requests)
    later = np.empty(most_filed, np.int64)
    due_s = np.empty(most_filed, np.float64)
    filed = 0
    clock = np.zeros(3, np.int64)  # requests sent of `order`, instances that something came to, tasks just over
    half = len(requests) if flow is None else len(requests) // 2
    if base.concurrency:
        for _ in range(base.concurrency):
            filed = send_heads(order, graph, clock, later, due_s, filed, 0.0)
    while True:
        now = np.inf
        r = -1
        for k in range(n):
            if instances[k].end < now:
                now, r = instances[k].end, k
        clocked = not base.concurrency and clock[0] < len(order)
        arrival = requests[order[clock[0]]].arrival if clocked else np.inf
        if filed > 0 and due_s[0] < arrival:
            arrival, clocked = due_s[0], False
        if arrival == np.inf and r < 0:
            break
        if arrival < now:  # what ends at the same instant comes first
            now = arrival
            clock[1] = 0
            while True:  # all that arrive at this instant are seen together
                if clocked:
                    i = order[clock[0]]
                    clock[0] += 1
                else:
                    i = later[0]
                    filed = remove_first_event(later, due_s, filed)
                    if i < half and (graph is None or requests[i].state != CANCELLED):
                        requests[i].arrival = now
                if pins is not None and i >= first_pin:
                    k = requests[i - first_pin].instance
                    if requests[i - first_pin].pinned:
                        unpin(pins, requests, nodes, chain_at, chain, i - first_pin)
                        fresh[k] = True
                        clock[1] += 1
                    i = -1
                elif graph is not None and i >= first_joint:
                    filed = joint_event(
                        i, order, graph, instances, queues, heaps, turns, tokens, requests, limits, nodes, chain_at,
                        chain, size, fresh, clock, later, due_s, filed, now,
                    )  # fmt: skip
                    i = -1
                elif graph is not None and i < half and requests[i].state == CANCELLED:  # taken back before it was sent
                    i = -1
                elif flow is not None and i >= half:
                    k, other, i = pass_on(
                        instances,
                        queues,
                        tokens,
                        requests,
                        i,
                        limits,
                        asking,
                        homes[len(groups)],
                        nodes,
                        chain_at,
                        chain,
                        size,
                        flow,
                        now,
                    )
                    if k >= 0:
                        fresh[k] = True
                    if other >= 0:
                        fresh[other] = True
                    clock[1] += 1
                else:
                    k = arrive(instances, queues, tokens, requests, i, limits, groups, turn, state, asking, homes, flow)
                    if k >= 0:
                        fresh[k] = True
                        clock[1] += 1
                        i = -1
                if i >= 0:
                    filed = request_over(
                        i, order, graph, instances, queues, heaps, turns, tokens, requests, limits, nodes, chain_at,
                        chain, size, flow, fresh, clock, later, due_s, filed, now,
                    )  # fmt: skip
                clocked = not base.concurrency and clock[0] < len(order)
                arrival = requests[order[clock[0]]].arrival if clocked else np.inf
                if filed > 0 and due_s[0] < arrival:
                    arrival, clocked = due_s[0], False
                if arrival > now:
                    break
            if clock[1] > 0:
                for k in range(n):
                    if fresh[k]:
                        fresh[k] = False
                        filed = wake(
                            k,
                            instances,
                            queues,
                            heaps,
                            requests,
                            turns,
                            totals,
                            limits,
                            linear,
                            nodes,
                            chain_at,
                            chain,
                            size,
                            flow,
                            pipes,
                            pins,
                            histogram,
                            later,
                            due_s,
                            filed,
                            now,
                        )
            continue
        one = instances[r]
        own = limits[one.pool]
        if base.every:
            if events % base.every == 0:
                if kept == len(series):
                    longer = np.zeros(2 * kept, SERIES)
                    longer[:kept] = series
                    series = longer
                row = series[kept]
                row.start, row.seconds, row.steps = one.start, one.end - one.start, max(one.steps, 1)
                row.decoding = one.decoding
                row.prompts = one.prefilling
                row.waiting, row.used, row.instance = one.waiting, one.used, r
                kept += 1
            events += 1
        count = complete(
            one,
            heaps[r],
            requests,
            turns[r],
            totals[r],
            own,
            histogram,
            ended,
            nodes,
            chain_at,
            chain,
            size,
            flow,
            graph,
            pins,
            now,
        )
        clock[1] = 0
        for j in range(count):
            q = requests[ended[j]]
            tokens[r] -= q.input + q.output
            if pins is not None and q.pinned and q.keep < np.inf:
                filed = file_event(later, due_s, filed, first_pin + ended[j], now + q.keep)
            if flow is not None and q.state == HELD:
                k = requests[ended[j] + half].instance
                to = limits[instances[k if k >= 0 else n - 1].pool]
                filed = prompt_ended(requests, to, flow, ended[j], later, due_s, filed, now)
            else:
                filed = request_over(
                    ended[j], order, graph, instances, queues, heaps, turns, tokens, requests, limits, nodes,
                    chain_at, chain, size, flow, fresh, clock, later, due_s, filed, now,
                )  # fmt: skip
        while filed > 0 and due_s[0] <= now:  # an answer's successor may join the very next iteration
            i = later[0]
            filed = remove_first_event(later, due_s, filed)
            k, other = -1, -1
            if pins is not None and i >= first_pin:
                if requests[i - first_pin].pinned:
                    k = requests[i - first_pin].instance
                    unpin(pins, requests, nodes, chain_at, chain, i - first_pin)
                i = -1
            elif graph is not None and i >= first_joint:
                filed = joint_event(
                    i, order, graph, instances, queues, heaps, turns, tokens, requests, limits, nodes, chain_at,
                    chain, size, fresh, clock, later, due_s, filed, now,
                )  # fmt: skip
                i = -1
            elif graph is not None and i < half and requests[i].state == CANCELLED:
                i = -1
            elif flow is not None and i >= half:
                k, other, i = pass_on(
                    instances,
                    queues,
                    tokens,
                    requests,
                    i,
                    limits,
                    asking,
                    homes[len(groups)],
                    nodes,
                    chain_at,
                    chain,
                    size,
                    flow,
                    now,
                )
            else:
                requests[i].arrival = now
                k = arrive(instances, queues, tokens, requests, i, limits, groups, turn, state, asking, homes, flow)
                if k >= 0:
                    i = -1
            if i >= 0:
                filed = request_over(
                    i, order, graph, instances, queues, heaps, turns, tokens, requests, limits, nodes, chain_at,
                    chain, size, flow, fresh, clock, later, due_s, filed, now,
                )  # fmt: skip
            if k >= 0:
                fresh[k] = True
                clock[1] += 1
            if other >= 0:
                fresh[other] = True
                clock[1] += 1
        fresh[r] = False
        if clock[1] > 0:
            for k in range(n):
                if fresh[k]:
                    fresh[k] = False
                    filed = wake(
                        k,
                        instances,
                        queues,
                        heaps,
                        requests,
                        turns,
                        totals,
                        limits,
                        linear,
                        nodes,
                        chain_at,
                        chain,
                        size,
                        flow,
                        pipes,
                        pins,
                        histogram,
                        later,
                        due_s,
                        filed,
                        now,
                    )
        if pipes is not None:
            join_pipeline(instances, r, limits, pipes, now)
        form(
            one,
            queues[r],
            heaps[r],
            requests,
            turns[r],
            totals[r],
            own,
            linear[one.pool],
            nodes,
            chain_at,
            chain,
            size,
            flow,
            pipes,
            pins,
            histogram,
            now,
        )
        if flow is not None:
            filed = send(one, requests, own, flow, later, due_s, filed, now)
    return totals, histogram, series[:kept]
