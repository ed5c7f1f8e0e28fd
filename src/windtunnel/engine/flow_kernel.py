"""The jitted event loop of flows on explicit links. Import it through `flows`: it imports Numba.

Rates are weighted max-min. A flow alone runs at the smallest capacity of its route; a link binds only where its flows
together ask for more than it has, so that a start or an end moves rates only in the component of flows joined by such
links, and only at or above the level at which the flow froze that ended, or can freeze that starts: what froze below
stays. Among the rest one level rises: the link with the lowest level freezes its flows, which raises the levels of
others; levels never fall, so a heap of old levels is corrected when a link comes to its top.
"""

# Numba's decorators have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.jit import helper, kernel

Array = Any

SLACK = 1e-9
"""A link binds beyond capacity · (1 + this); absorbs the rounding of running sums."""
LEVEL_SLACK = 1e-12
"""Levels and ends closer than this (relative) count as equal."""


@helper
def _sift_down(key: Array, link: Array, size: int, j: int) -> None:
    k, l = key[j], link[j]
    while True:
        child = 2 * j + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (key[right] < key[child] or (key[right] == key[child] and link[right] < link[child])):
            child = right
        if k < key[child] or (k == key[child] and l < link[child]):
            break
        key[j], link[j] = key[child], link[child]
        j = child
    key[j], link[j] = k, l


@helper
def _freeze(
    f: int, speed: float, ptr: Array, idx: Array, weight: Array, new: Array, left: Array, rising: Array, waiting: Array
) -> None:
    """Fix the rate of a flow and take it off what its links still have to share."""
    new[f] = speed
    for e in range(ptr[f], ptr[f + 1]):
        l = idx[e]
        left[l] -= speed
        rising[l] -= weight[f]
        waiting[l] -= 1


@helper
def _fill(
    links: Array,
    num_links: int,
    ptr: Array,
    idx: Array,
    first: Array,
    member: Array,
    count: Array,
    load: Array,
    capacity: Array,
    weight: Array,
    own: Array,
    new: Array,
    left: Array,
    rising: Array,
    waiting: Array,
    key: Array,
    top: Array,
) -> None:
    """Max-min rates of the flows with `new` below zero; those that no link binds keep it so."""
    size = 0
    for j in range(num_links):
        l = links[j]
        left[l] = capacity[l]
        rising[l] = 0.0
        waiting[l] = 0
        for i in range(first[l], first[l] + count[l]):
            f = member[i]
            if new[f] < 0.0:
                rising[l] += weight[f]
                waiting[l] += 1
            else:
                left[l] -= new[f]
        if waiting[l] > 0 and load[l] > capacity[l] * (1.0 + SLACK):
            key[size] = max(left[l], 0.0) / rising[l]
            top[size] = l
            size += 1
    for j in range(size // 2 - 1, -1, -1):
        _sift_down(key, top, size, j)
    while size > 0:
        l = top[0]
        if waiting[l] > 0:
            level = max(left[l], 0.0) / rising[l]
            if level > key[0] * (1.0 + LEVEL_SLACK):
                key[0] = level
                _sift_down(key, top, size, 0)
                continue
            level = key[0]
            full = 0
            for i in range(first[l], first[l] + count[l]):
                f = member[i]
                if new[f] < 0.0 and own[f] <= level * weight[f]:
                    _freeze(f, own[f], ptr, idx, weight, new, left, rising, waiting)
                    full += 1
            if full > 0 and waiting[l] > 0:
                key[0] = max(left[l] / rising[l], level)
                _sift_down(key, top, size, 0)
                continue
            for i in range(first[l], first[l] + count[l]):
                f = member[i]
                if new[f] < 0.0:
                    _freeze(f, level * weight[f], ptr, idx, weight, new, left, rising, waiting)
        size -= 1
        key[0], top[0] = key[size], top[size]
        _sift_down(key, top, size, 0)


@kernel()
def run(
    ptr: Array, idx: Array, capacity: Array, nbytes: Array, start: Array, weight: Array, tolerance: float
) -> tuple[Array, int]:
    """End of every flow, and how often rates were shared anew.

    Args:
        ptr: Flow → its first link in `idx`, shape (n + 1,).
        idx: Links of the routes, no link twice in one.
        capacity: Bytes/s, shape (links,).
        nbytes: Of each flow, shape (n,).
        start: Seconds, ascending, shape (n,).
        weight: Share of each flow where a link binds.
        tolerance: Ends within half of this share of the youngest flow's age are taken together; 0 is exact.
    """
    n, num_links = len(nbytes), len(capacity)
    first = np.zeros(num_links + 1, np.int64)
    for e in range(len(idx)):
        first[idx[e] + 1] += 1
    for l in range(num_links):
        first[l + 1] += first[l]
    member = np.empty(len(idx), np.int64)
    entry = np.empty(len(idx), np.int64)
    place = np.empty(len(idx), np.int64)
    count = np.zeros(num_links, np.int64)
    load, total = np.zeros(num_links), np.zeros(num_links)
    left, rising = np.zeros(num_links), np.zeros(num_links)
    waiting = np.zeros(num_links, np.int64)
    key, top = np.empty(num_links), np.empty(num_links, np.int64)
    dirty = np.empty(num_links, np.int64)
    is_dirty = np.zeros(num_links, np.bool_)
    links, flows = np.empty(num_links, np.int64), np.empty(n, np.int64)
    link_mark, flow_mark = np.zeros(num_links, np.int64), np.zeros(n, np.int64)
    own, rate, rest = np.full(n, np.inf), np.zeros(n), nbytes.copy()
    since, due, end, new = np.zeros(n), np.full(n, np.inf), np.full(n, np.inf), np.zeros(n)
    alive = np.empty(n, np.int64)
    num_alive, num_dirty, shared, arrived, fresh, now, floor = 0, 0, 0, 0, 0, 0.0, np.inf
    while True:
        while arrived < n and start[arrived] <= now:
            f = arrived
            arrived += 1
            for e in range(ptr[f], ptr[f + 1]):
                own[f] = min(own[f], capacity[idx[e]])
            if rest[f] <= 0.0 or own[f] == np.inf:
                end[f] = start[f]
                continue
            rate[f], new[f], since[f], due[f] = own[f], own[f], now, now + rest[f] / own[f]
            for e in range(ptr[f], ptr[f + 1]):
                l = idx[e]
                place[e] = first[l] + count[l]
                member[place[e]] = f
                entry[place[e]] = e
                count[l] += 1
                load[l] += own[f]
                total[l] += weight[f]
                if load[l] > capacity[l] * (1.0 + SLACK) and not is_dirty[l]:
                    is_dirty[l] = True
                    dirty[num_dirty] = l
                    num_dirty += 1
            alive[num_alive] = f
            num_alive += 1
        if num_dirty > 0:
            shared += 1
            for f in range(fresh, arrived):  # with all flows of a link rising no level is lower than this
                for e in range(ptr[f], ptr[f + 1]):
                    if count[idx[e]] > 0:
                        floor = min(floor, capacity[idx[e]] / total[idx[e]])
            fresh = arrived
            floor *= 1.0 - SLACK
            num_comp, num_flows = 0, 0
            for j in range(num_dirty):
                is_dirty[dirty[j]] = False
                if link_mark[dirty[j]] != shared:
                    link_mark[dirty[j]] = shared
                    links[num_comp] = dirty[j]
                    num_comp += 1
            num_dirty, j = 0, 0
            while j < num_comp:
                l = links[j]
                j += 1
                for i in range(first[l], first[l] + count[l]):
                    f = member[i]
                    if flow_mark[f] == shared or rate[f] < floor * weight[f]:
                        continue
                    flow_mark[f] = shared
                    flows[num_flows] = f
                    new[f] = -1.0
                    num_flows += 1
                    for e in range(ptr[f], ptr[f + 1]):
                        o = idx[e]
                        if link_mark[o] != shared and load[o] > capacity[o] * (1.0 + SLACK):
                            link_mark[o] = shared
                            links[num_comp] = o
                            num_comp += 1
            _fill(
                links,
                num_comp,
                ptr,
                idx,
                first,
                member,
                count,
                load,
                capacity,
                weight,
                own,
                new,
                left,
                rising,
                waiting,
                key,
                top,
            )
            for j in range(num_flows):
                f = flows[j]
                speed = new[f] if new[f] >= 0.0 else own[f]
                new[f] = speed
                if speed != rate[f]:
                    rest[f] = max(rest[f] - rate[f] * (now - since[f]), 0.0)
                    rate[f], since[f] = speed, now
                    due[f] = now + rest[f] / speed
            floor = np.inf
        if num_alive == 0 and arrived == n:
            return end, shared
        horizon = np.inf
        for j in range(num_alive):
            horizon = min(horizon, due[alive[j]])
        # ends up to here are taken together: rates are late by that share of any running flow's age
        horizon = max(horizon, now + 0.5 * tolerance * (now - start[arrived - 1]))
        now = max(now, min(horizon, start[arrived] if arrived < n else np.inf))
        if now == np.inf:
            return end, shared
        j = 0
        while j < num_alive:
            f = alive[j]
            if due[f] > now * (1.0 + LEVEL_SLACK):
                j += 1
                continue
            end[f] = due[f]
            floor = min(floor, rate[f] / weight[f])
            num_alive -= 1
            alive[j] = alive[num_alive]
            for e in range(ptr[f], ptr[f + 1]):
                l = idx[e]
                if load[l] > capacity[l] * (1.0 + SLACK) and not is_dirty[l]:
                    is_dirty[l] = True
                    dirty[num_dirty] = l
                    num_dirty += 1
                count[l] -= 1
                last = first[l] + count[l]
                member[place[e]], entry[place[e]] = member[last], entry[last]
                place[entry[last]] = place[e]
                load[l] = load[l] - own[f] if count[l] > 0 else 0.0
                total[l] = total[l] - weight[f] if count[l] > 0 else 0.0
