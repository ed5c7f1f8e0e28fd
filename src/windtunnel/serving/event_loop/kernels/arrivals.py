"""What comes to an instance, and how an instance answers to it."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.batching import form, shorten
from windtunnel.serving.event_loop.kernels.disaggregation import ask, is_answered_elsewhere, send
from windtunnel.serving.event_loop.kernels.kv_blocks import too_long
from windtunnel.serving.event_loop.kernels.pipeline import join_pipeline
from windtunnel.serving.event_loop.kernels.queues import enqueue
from windtunnel.serving.event_loop.kernels.records import IDLE, REJECTED, RUN, Array
from windtunnel.serving.event_loop.kernels.routing import route


@helper
def arrive(
    instances: Array,
    queues: Array,
    tokens: Array,
    requests: Array,
    i: int,
    limits: Array,
    groups: Array,
    turn: Array,
    state: Array,
    asking: Array,
    homes: Array,
    flow: Array,
) -> int:
    """Send a request to an instance, whose number is returned; −1 when no cache could ever hold it.

    With `early`, the answering instance is chosen first and gets the request first: its number is returned.
    """
    q = requests[i]
    g = q.pool
    begin, end = groups[g, 0], groups[g, 1]
    k = route(instances, tokens, q, limits[0].router, turn[g], state[g : g + 1], homes[g], begin, end)
    turn[g] += 1
    q.instance = k
    own = limits[instances[k].pool]
    if flow is not None:
        half = len(requests) // 2
        q.output = 1 if instances[k].prefill_only else requests[i + half].output
        if too_long(instances[k], q, own):
            q.state = REJECTED
            return -1
        rule = flow[4][0]
        if rule.early and is_answered_elsewhere(instances[k], requests, i, flow):
            if not ask(instances, queues, tokens, requests, i + half, limits, asking, homes[len(groups)], flow):
                q.state = REJECTED
                return -1
            tokens[k] += q.input + q.output
            instances[k].promised += 1
            return requests[i + half].instance
    elif too_long(instances[k], q, own):
        q.state = REJECTED
        return -1
    tokens[k] += q.input + q.output
    enqueue(instances[k], queues[k], requests, i, False)
    return k


@helper
def wake(
    k: int,
    instances: Array,
    queues: Array,
    heaps: Array,
    requests: Array,
    turns: Array,
    totals: Array,
    limits: Array,
    linear: Array,
    nodes: Array,
    chain_at: Array,
    chain: Array,
    size: Array,
    flow: Array,
    pipes: Array,
    pins: Array,
    histogram: Array,
    later: Array,
    due_s: Array,
    filed: int,
    now: float,
) -> int:
    """Tell an instance that something came to it: it begins if it is idle, and may end its run of steps early."""
    one = instances[k]
    own = limits[one.pool]
    if one.mode == IDLE:
        if pipes is not None:
            join_pipeline(instances, k, limits, pipes, now)
        form(
            one,
            queues[k],
            heaps[k],
            requests,
            turns[k],
            totals[k],
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
    elif one.mode == RUN:
        shorten(one, queues[k], heaps[k], requests, turns[k], own, nodes, chain_at, chain, size, now)
    return filed
