"""Which instance takes a request."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper, pasted
from windtunnel.serving.event_loop.kernels.records import (
    GANG,
    LEAST_TOKENS,
    POWER_OF_TWO,
    RANDOM,
    ROUND_ROBIN,
    STICKY,
)
from windtunnel.serving.event_loop.kernels.state import Array, Fleet, Record, Routing
from windtunnel.splitmix64.jitted import uniform


@helper
def _load(instances: Array, tokens: Array, r: int, router: int) -> float:
    """The load that a router compares: tokens to do, or the number of requests."""
    if router == LEAST_TOKENS or router == GANG:
        return tokens[r]
    return float(instances[r].decoding + instances[r].prefilling + instances[r].waiting + instances[r].promised)


@pasted
def route(fleet: Fleet, q: Record, router: int, routing: Routing, group: int) -> int:
    """One of the instances of a group; the turn, the random numbers and the homes are those of the group."""
    begin, end = routing.groups[group, 0], routing.groups[group, 1]
    turn, state, home = routing.turn[group], routing.random[group : group + 1], routing.homes[group]
    routing.turn[group] += 1
    instances, tokens = fleet.instances, fleet.tokens
    n = end - begin
    if n == 1:
        return begin
    if router == GANG and home[q.gang] >= 0:
        return home[q.gang]
    if router == ROUND_ROBIN:
        return begin + turn % n
    if router == RANDOM:
        return begin + int(uniform(state) * n)
    if router == STICKY:
        return begin + q.group % n
    if router == POWER_OF_TWO:
        a = int(uniform(state) * n)
        b = int(uniform(state) * (n - 1))
        if b >= a:
            b += 1
        a += begin
        b += begin
        x, y = _load(instances, tokens, a, router), _load(instances, tokens, b, router)
        return a if x < y or (x == y and a < b) else b
    best, least = begin, np.inf
    for r in range(begin, end):
        x = _load(instances, tokens, r, router)
        if x < least:
            best, least = r, x
    if router == GANG:
        home[q.gang] = best
    return best
