"""Several tenants: each draws its own requests from a stream of its own; all are merged by arrival."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Int32s
from windtunnel.serving.event_loop.prefix_chains import chains_of
from windtunnel.serving.event_loop.prompt_content import Content, joined, merged, taken
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.traffic.arrivals import stream
from windtunnel.serving.traffic.single_source import drawn_alone
from windtunnel.specs.traffic import Tenant, TrafficSpec

PREFIX, CLASS = 8, 9
"""Streams of random numbers next to a seed."""
_SEEDS_APART = 1_000_003
"""Between the seeds of two tenants."""
OWN = ("process", "burstiness", "period_s", "peak_to_mean", "input_tokens", "output_tokens", "sessions")


def counts(spec: TrafficSpec) -> list[int | None]:
    """Requests of each tenant; None: as many as its time allows. Shares of `num_requests` add up to it."""
    if spec.num_requests is None:
        return [t.num_requests for t in spec.tenants]
    rates = [rate_of(spec, t) for t in spec.tenants]
    free = [i for i, t in enumerate(spec.tenants) if t.num_requests is None]
    left = max(spec.num_requests - sum(t.num_requests or 0 for t in spec.tenants), 0)
    total = sum(rates[i] for i in free) or 1.0
    exact = [left * rates[i] / total for i in free]
    whole = [int(x) for x in exact]
    for i in sorted(range(len(free)), key=lambda i: whole[i] - exact[i])[: left - sum(whole)]:
        whole[i] += 1
    out = [t.num_requests for t in spec.tenants]
    for i, n in zip(free, whole, strict=True):
        out[i] = n
    return out


def rate_of(spec: TrafficSpec, tenant: Tenant) -> float:
    """Requests a second, or a share where nobody has a rate; 0 for a closed loop."""
    if tenant.rate_per_s is not None:
        return tenant.rate_per_s
    if tenant.concurrency is not None:
        return 0.0  # answers set its pace
    shares = sum(t.share or 1.0 for t in spec.tenants if t.rate_per_s is None and t.concurrency is None)
    return (spec.rate_per_s or 1.0) * (tenant.share or 1.0) / shares


def draw(spec: TrafficSpec, seed: int) -> tuple[Requests, tuple[tuple[str, Any, str], ...]]:
    """Requests of all tenants, in the order of arrival (of a closed loop or an offline batch: evenly mixed).

    Returns:
        Requests with `tenant`, `priority` and `content`; and what had to be assumed.
    """
    parts, contents, assumed, alike = [], [], [], []
    for i, (tenant, count) in enumerate(zip(spec.tenants, counts(spec), strict=True)):
        if count == 0:
            continue
        own, said = _one(spec, tenant, count, seed + _SEEDS_APART * (i + 1))
        if not len(own):
            continue
        own.tenant[:] = i
        own.priority[:] = tenant.priority
        assert own.content is not None
        parts.append(own)
        contents.append(own.content)
        alike.append(tenant.shared_prefix_tokens is None and spec.shared_prefix_tokens > 0)
        assumed += said
    if not parts:
        return Requests(
            arrival_s=np.zeros(0), input_tokens=np.zeros(0, np.int32), output_tokens=np.zeros(0, np.int32)
        ), ()
    content = joined(contents)
    _one_root(content, [len(one.tokens) for one in contents], alike)
    return _together(parts, content, closed=bool(spec.concurrency or spec.offline)), tuple(assumed)


def _one(spec: TrafficSpec, tenant: Tenant, count: int | None, seed: int) -> tuple[Requests, Any]:
    """One tenant's requests, as if it were alone."""
    given = {name: getattr(tenant, name) for name in OWN if getattr(tenant, name) is not None}
    given |= {"tenants": (), "num_requests": count, "warmup_requests": 0}
    if tenant.shared_prefix_tokens is not None:
        given["shared_prefix_tokens"] = tenant.shared_prefix_tokens
    if tenant.concurrency is not None:
        given |= {"rate_per_s": None, "offline": True, "duration_s": None}
    elif not (spec.concurrency or spec.offline):
        given["rate_per_s"] = rate_of(spec, tenant)
        ends = [e for e in (tenant.end_s, spec.duration_s) if e is not None]
        given["duration_s"] = max(min(ends) - tenant.start_s, 1e-9) if ends else None
    alone = spec.model_copy(update=given)
    traffic = drawn_alone(alone, seed)
    requests = traffic.requests
    if not len(requests):
        return requests, ()
    requests.arrival_s = requests.arrival_s + tenant.start_s
    requests.content, requests.group = _content(requests, alone, tenant, seed)
    if tenant.concurrency is not None:
        n, c = len(requests), tenant.concurrency
        after = np.arange(n, dtype=np.int32) + np.int32(c)
        requests.follow = np.where(after < n, after, -1).astype(np.int32)
        requests.arrival_s = np.where(np.arange(n) < c, tenant.start_s, np.nan)
    return requests, traffic.assumed


def _content(requests: Requests, alone: TrafficSpec, tenant: Tenant, seed: int) -> tuple[Content, Int32s]:
    """Stretches of one tenant's requests, its prefixes first; and groups for routing by prefix or session."""
    whole = chains_of(requests, 1, 0)
    content = Content(whole.start, whole.nodes, whole.size.astype(np.int64))
    shared = alone.shared_prefix_tokens
    if not shared:
        return content, requests.group
    roots = np.zeros(len(requests), np.int32)
    if tenant.prefixes > 1:
        sessions = int(requests.group.max()) + 1
        drawn = stream(seed, PREFIX).integers(0, tenant.prefixes, sessions).astype(np.int32)
        roots = drawn[requests.group]
    group = requests.group if alone.sessions is not None else roots
    return merged(content, roots, shared), group


def _one_root(content: Content, stretches: list[int], alike: list[bool]) -> None:
    """Tenants without a prefix of their own begin with the same one: their first stretch becomes one, in place."""
    begin = np.concatenate([[0], np.cumsum(stretches)])[:-1][np.array(alike)]
    for other in begin[1:]:
        content.nodes[content.nodes == other] = begin[0]


def _together(parts: list[Requests], content: Content, *, closed: bool) -> Requests:
    """One after the other, then sorted by arrival; turns without a time stay behind the turn before."""

    def column(name: str) -> Any:
        return np.concatenate([getattr(one, name) for one in parts])

    offsets = np.concatenate([[0], np.cumsum([len(one) for one in parts])])
    groups = np.concatenate([[0], np.cumsum([int(one.group.max()) + 1 for one in parts])])
    follow = np.concatenate(
        [np.where(one.follow >= 0, one.follow + o, -1) for one, o in zip(parts, offsets[:-1], strict=True)]
    ).astype(np.int32)
    keys: Floats = column("arrival_s")
    if closed:  # evenly mixed: the k-th of n requests at (k + ½)/n
        keys = np.concatenate([(np.arange(len(one)) + 0.5) / len(one) for one in parts])
    else:
        keys = _filled(keys)
    order = np.argsort(keys, kind="stable").astype(np.int64)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    group = np.concatenate([one.group + g for one, g in zip(parts, groups[:-1], strict=True)])
    content = taken(content, order)
    follow = follow[order]
    requests = Requests(
        arrival_s=column("arrival_s")[order],
        input_tokens=column("input_tokens")[order],
        output_tokens=column("output_tokens")[order],
        priority=column("priority")[order],
        group=group[order].astype(np.int32),
        tenant=column("tenant")[order],
        follow=np.where(follow >= 0, place[np.maximum(follow, 0)], -1).astype(np.int32),
        delay_s=column("delay_s")[order],
        content=content,
    )
    requests.prefix_tokens = content.found(np.arange(len(order)), requests.input_tokens)
    return requests


def _filled(keys: Floats) -> Floats:
    """Times with gaps filled from the last known one before: a session's later turns stand behind its first."""
    known = np.where(np.isnan(keys), 0, np.arange(len(keys)))
    np.maximum.accumulate(known, out=known)
    return np.where(np.isnan(keys[known]), 0.0, keys[known])


def classes(shares: tuple[float, ...], group: Int32s, seed: int) -> Int32s:
    """(R,) classes of priority, drawn by session."""
    steps = np.cumsum(shares) / np.sum(shares)
    drawn = np.searchsorted(steps, stream(seed, CLASS).random(int(group.max(initial=-1)) + 1), side="right")
    found: Int32s = drawn.clip(max=len(shares) - 1).astype(np.int32)[group]
    return found
