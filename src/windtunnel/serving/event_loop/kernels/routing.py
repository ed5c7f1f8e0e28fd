"""Which instance takes a request."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.records import (
    GANG,
    LEAST_TOKENS,
    POWER_OF_TWO,
    RANDOM,
    ROUND_ROBIN,
    STICKY,
    Array,
)
from windtunnel.splitmix64.jitted import uniform


@helper
def _load(instances: Array, tokens: Array, r: int, router: int) -> float:
    """The load that a router compares: tokens to do, or the number of requests."""
    if router == LEAST_TOKENS or router == GANG:
        return tokens[r]
    return float(instances[r].decoding + instances[r].prefilling + instances[r].waiting + instances[r].promised)


@helper
def route(
    instances: Array,
    tokens: Array,
    q: Array,
    router: int,
    turn: int,
    state: Array,
    home: Array,
    begin: int,
    end: int,
) -> int:
    """One of the instances from `begin` up to `end`; `home` holds that of each gang, or −1."""
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
