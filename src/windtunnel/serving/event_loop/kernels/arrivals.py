"""What comes to an instance, and how an instance answers to it."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call,arg-type,return-value"

from __future__ import annotations

import numpy as np

from windtunnel.jit import pasted
from windtunnel.serving.event_loop.kernels.batching import form, shorten
from windtunnel.serving.event_loop.kernels.disaggregation import ask, is_answered_elsewhere, send
from windtunnel.serving.event_loop.kernels.kv_blocks import too_long
from windtunnel.serving.event_loop.kernels.pipeline import join_pipeline
from windtunnel.serving.event_loop.kernels.queues import enqueue
from windtunnel.serving.event_loop.kernels.records import IDLE, REJECTED, RUN
from windtunnel.serving.event_loop.kernels.routing import route
from windtunnel.serving.event_loop.kernels.state import Array, Fleet, Loop, Routing, lane_of


@pasted
def arrive(fleet: Fleet, requests: Array, i: int, routing: Routing, rule: Array) -> int:
    """Send a request to an instance, whose number is returned; −1 when no cache could ever hold it.

    With `early`, the answering instance is chosen first and gets the request first: its number is returned.
    """
    q = requests[i]
    k = route(fleet, q, fleet.limits[0].router, routing, np.int64(q.pool))
    q.instance = k
    instance = fleet.instances[k]
    half = len(requests) // 2
    if len(rule) > 0:
        q.output = 1 if instance.prefill_only else requests[i + half].output
    if too_long(q, fleet.limits[instance.pool]):
        q.state = REJECTED
        return -1
    if len(rule) > 0 and rule[0].early and is_answered_elsewhere(instance, requests, i, rule):
        if not ask(fleet, requests, i + half, routing, rule[0]):
            q.state = REJECTED
            return -1
        fleet.tokens[k] += q.input + q.output
        instance.promised += 1
        return np.int64(requests[i + half].instance)
    fleet.tokens[k] += q.input + q.output
    enqueue(instance, fleet.queues[k], requests, i, False)
    return k


@pasted
def begin(loop: Loop, k: int, now: float) -> None:
    """Instance k is free: it forms its next iteration or run, if it has any."""
    join_pipeline(loop.fleet.instances, k, loop.fleet.limits, loop.pipelines, now)
    lane = lane_of(loop.fleet, k)
    form(lane, loop, now)
    if lane.instance.admitted >= 0:
        send(lane, loop.requests, loop.transfer, loop.events, now)


@pasted
def go_on(loop: Loop, done: int, now: float) -> None:
    """Instances that something came to begin if they are idle, and may end their run of steps early.

    Args:
        loop: all of it.
        done: the instance whose iteration has ended, or −1; it begins last.
        now: seconds.
    """
    fleet = loop.fleet
    instances, fresh = fleet.instances, fleet.fresh
    n = len(instances)
    if done >= 0:
        fresh[done] = False
    for at in range(0 if loop.counts[0].touched > 0 else n, n + 1 if done >= 0 else n):
        k = done
        if at < n:
            k = at
            if not fresh[k]:
                continue
            fresh[k] = False
            if instances[k].mode == RUN:
                shorten(lane_of(fleet, k), loop.requests, loop.tree, now)
        if instances[k].mode == IDLE:
            begin(loop, k, now)
