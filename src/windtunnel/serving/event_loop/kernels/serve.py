"""The request loop of serving, jitted. `reference.py` does the same in Python: same arithmetic, same order, same bits.

Time moves from one event to the next: an arrival, the end of an iteration that holds prompts, or the end of a run of
decode steps. Between two events a decoding batch does not change, and its steps grow evenly (every sequence has one
token more in the cache), so a run of any length has a closed form. Cost is per event, not per token.

A cached token count lets a prompt skip work; blocks of the cache are counted exactly: sequences that need a new block
at the same step are counted together, so that nothing is touched per step.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call,arg-type,return-value"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper, kernel, pasted
from windtunnel.serving.event_loop.kernels.arrivals import arrive, go_on
from windtunnel.serving.event_loop.kernels.completion import complete
from windtunnel.serving.event_loop.kernels.disaggregation import pass_on, prompt_ended
from windtunnel.serving.event_loop.kernels.events import file_event, pop_event
from windtunnel.serving.event_loop.kernels.graph import act_on_end, free_slot, send_heads
from windtunnel.serving.event_loop.kernels.pins import unpin
from windtunnel.serving.event_loop.kernels.records import CANCELLED, HELD, IN_SERVICE
from windtunnel.serving.event_loop.kernels.state import Array, Fleet, Loop, Record, first_joint, lane_of


@kernel(allocates=False)
def serve(loop: Loop, series: Array) -> bool:
    """Run requests through instances until all have ended, or the series is full; returns whether all have.

    Args:
        loop: what it reads and changes; called again with it, the loop goes on where it stopped.
        series: (K,) of `SERIES`, of which `counts.kept` are filled.
    """
    fleet, counts = loop.fleet, loop.counts[0]
    if counts.sent == 0:
        for _ in range(fleet.limits[0].concurrency):
            send_heads(loop.order, loop.graph.task, counts, loop.events, 0.0)
    while True:
        end, done = _first_to_end(fleet.instances)
        now = _next_arrival_s(loop)
        if now == np.inf and done < 0:
            return True
        counts.touched = 0
        ended = 0
        if now < end:  # what ends at the same instant comes first
            done = -1
        else:
            if counts.kept == len(series) > 0:
                return False
            now = end
            _note(fleet, done, counts, series)
            ended = complete(lane_of(fleet, done), loop, now)
        _take_events(loop, ended, done < 0, now)
        go_on(loop, done, now)


@pasted
def _first_to_end(instances: Array) -> tuple[float, int]:
    """When the first iteration or run ends, and on which instance; infinite and −1 where nothing is under way."""
    end, first = np.inf, -1
    for k in range(len(instances)):
        if instances[k].end < end:
            end, first = instances[k].end, k
    return end, first


@pasted
def _next_by_the_clock_s(loop: Loop) -> float:
    """When the next request arrives that nothing brings on; infinite in a closed loop and after the last."""
    sent = loop.counts[0].sent
    if loop.fleet.limits[0].concurrency or sent >= len(loop.order):
        return np.inf
    return loop.requests[loop.order[sent]].arrival


@pasted
def _next_arrival_s(loop: Loop) -> float:
    """When something next happens that ends no iteration."""
    clock = _next_by_the_clock_s(loop)
    if loop.events.count[0] > 0:
        return min(clock, loop.events.due_s[0])
    return clock


@pasted
def _note(fleet: Fleet, k: int, counts: Record, series: Array) -> None:
    """Keep one in `every` ends of iterations and runs in the series."""
    every = fleet.limits[0].every
    if every == 0:
        return
    if counts.seen % every == 0:
        one, row = fleet.instances[k], series[counts.kept]
        row.start, row.seconds, row.steps = one.start, one.end - one.start, max(one.steps, 1)
        row.decoding, row.prompts = one.decoding, one.prefilling
        row.waiting, row.used, row.instance = one.waiting, one.used, k
        counts.kept += 1
    counts.seen += 1


@pasted
def _take_events(loop: Loop, ended: int, clocked: bool, now: float) -> None:
    """All that happens at an instant, seen together; an answer's successor may join the very next iteration.

    Args:
        loop: all of it.
        ended: requests of `loop.ended` that ended with an iteration; they come first.
        clocked: whether requests arrive by the clock too; not where an iteration ends, which comes before them.
        now: seconds.
    """
    events, counts = loop.events, loop.counts[0]
    seen = 0
    while True:
        if seen < ended:
            over = _ended(loop, loop.ended[seen], now)
            seen += 1
        else:
            at = _next_by_the_clock_s(loop) if clocked else np.inf
            if events.count[0] > 0 and events.due_s[0] < at:
                if events.due_s[0] > now:
                    break
                event = pop_event(events)
            elif at <= now:
                event = loop.order[counts.sent]
                counts.sent += 1
            else:
                break
            over = _event(loop, event, now)
        if over >= 0:
            act_on_end(loop, over, now)


@pasted
def _ended(loop: Loop, i: int, now: float) -> int:
    """Request i has left its instance; returns it where it is over, −1 where another instance goes on with it."""
    fleet, requests = loop.fleet, loop.requests
    q = requests[i]
    fleet.tokens[q.instance] -= q.input + q.output
    if q.pinned and q.keep < np.inf:
        file_event(loop.events, first_joint(requests) + len(loop.graph.joints) + i, now + q.keep)
    if q.state != HELD:
        return i
    to = requests[i + len(requests) // 2].instance
    limits = fleet.limits[fleet.instances[to if to >= 0 else len(fleet.instances) - 1].pool]
    prompt_ended(requests, limits, loop.transfer, i, loop.events, now)
    return -1


@pasted
def _event(loop: Loop, event: int, now: float) -> int:
    """An event of the heap (see `Events`); returns what is over by it (see `act_on_end`), or −1."""
    fleet, requests, rule = loop.fleet, loop.requests, loop.transfer.rule
    joint = event - first_joint(requests)
    pin = joint - len(loop.graph.joints)
    if pin >= 0:
        if requests[pin].pinned:
            unpin(fleet.instances, requests, loop.tree, pin)
            _touch(fleet.fresh, loop.counts[0], np.int64(requests[pin].instance))
    elif joint >= 0:
        if loop.graph.joints[joint].state == IN_SERVICE:  # not taken back
            free_slot(loop.graph, joint, first_joint(requests), loop.events, now)
            return len(requests) + joint
    elif len(rule) > 0 and event >= len(requests) // 2:
        first, second, rejected = pass_on(fleet, requests, event, loop.routing, loop.tree, rule[0], now)
        _touch(fleet.fresh, loop.counts[0], first)
        _touch(fleet.fresh, loop.counts[0], second)
        return rejected
    elif requests[event].state != CANCELLED:  # taken back before it was sent
        requests[event].arrival = now
        k = arrive(fleet, requests, event, loop.routing, rule)
        _touch(fleet.fresh, loop.counts[0], k)
        if k < 0:
            return event
    return -1


@helper
def _touch(fresh: Array, counts: Record, k: int) -> None:
    """Note that something came to instance k, if any."""
    if k >= 0:
        fresh[k] = True
        counts.touched += 1
