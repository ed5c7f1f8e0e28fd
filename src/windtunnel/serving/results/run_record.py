"""What a run leaves behind for charts, traces and questions: its requests, its events, and time series of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.serving.event_loop.requests import CANCELLED, Requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Requests and events of one run. A lane is an instance of the loop; a pipeline of pp stages has pp of them."""

    requests: Requests
    events: Any
    """(E,) records `records.SERIES`, one in `every`."""
    every: int
    lanes: int
    lanes_of_instance: int
    blocks: int
    """Cache blocks of one lane; with several pools, of a lane of the first."""
    name: str = ""
    """Name of the pool."""
    decode: bool = False
    """Whether the record is a decode pool's, whose requests came with their prompts computed."""
    parts: tuple[Record, ...] = ()
    """By pool, where there are several; lanes are numbered from the first of the pool on."""

    @property
    def instances(self) -> int:
        """Instances of all pools."""
        if self.parts:
            return sum(part.instances for part in self.parts)
        return max(self.lanes // max(self.lanes_of_instance, 1), 1)

    @property
    def pools(self) -> tuple[Record, ...]:
        """Each pool's own record."""
        return self.parts or (self,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeries:
    """Means over B slices of a run, shape (B,), and by instance, shape (N, B)."""

    edges_s: Floats
    """(B + 1,)"""
    running: Floats
    """Requests in the batch. A preempted one counts until it ends."""
    waiting: Floats
    """Queued requests that no batch has held yet."""
    kv_usage: Floats
    """Share of all cache in use."""
    prompt_tokens_per_s: Floats
    """Spread evenly from a request's admission to its first token."""
    output_tokens_per_s: Floats
    """Spread evenly from a request's first token to its last."""
    arrivals_per_s: Floats
    running_by_instance: Floats
    waiting_by_instance: Floats
    kv_usage_by_instance: Floats

    def columns(self) -> dict[str, Floats]:
        """One row a slice; time is the middle of it."""
        middle = 0.5 * (self.edges_s[1:] + self.edges_s[:-1])
        names = ("running", "waiting", "kv_usage", "prompt_tokens_per_s", "output_tokens_per_s", "arrivals_per_s")
        return {"time_s": middle, **{name: getattr(self, name) for name in names}}


def _passed(at_s: Floats, edges: Floats, weight: Floats | None = None) -> Floats:
    """Σ weight · max(edge − t, 0) at each edge: the integral over time of how many (how much) came before."""
    order = np.argsort(at_s, kind="stable")
    t = at_s[order]
    w = np.ones(len(t)) if weight is None else weight[order]
    count = np.concatenate([[0.0], np.cumsum(w)])
    moment = np.concatenate([[0.0], np.cumsum(w * t)])
    k = np.searchsorted(t, edges, side="right")
    return np.asarray(edges * count[k] - moment[k])


def _between(begin_s: Floats, end_s: Floats, edges: Floats, weight: Floats | None = None) -> Floats:
    """Mean over each slice of the sum of weights of intervals that are open."""
    area = _passed(begin_s, edges, weight) - _passed(end_s, edges, weight)
    return np.maximum(np.diff(area) / np.diff(edges), 0.0)


def _spread(begin_s: Floats, end_s: Floats, amount: Floats, edges: Floats) -> Floats:
    """Mean rate over each slice of amounts that flow evenly from begin to end; at an instant where both are equal."""
    width = end_s - begin_s
    flows = width > 1e-12
    rate = amount[flows] / width[flows]
    out = _between(begin_s[flows], end_s[flows], edges, rate)
    at_once, _ = np.histogram(begin_s[~flows], edges, weights=amount[~flows])
    return out + at_once / np.diff(edges)


def _cache(record: Record, edges: Floats) -> Floats:
    """(lanes, B) mean share of each lane's cache in use, between events as a straight line."""
    out = np.zeros((record.lanes, len(edges) - 1))
    events = record.events
    for lane in range(record.lanes):
        mine = events[events["instance"] == lane]
        if not len(mine):
            continue
        start, end, used = mine["start"], mine["start"] + mine["seconds"], mine["used"] / record.blocks
        t, value = [start], [used]
        if record.every == 1:  # what is empty between two events is known only where none was left out
            idle = np.append(start[1:] > end[:-1] + 1e-9, True)
            t += [end[idle], end[idle]]
            value += [used[idle], np.zeros(int(idle.sum()))]
            later = np.append(start[1:], np.inf)[idle]
            t.append(later[np.isfinite(later)])
            value.append(np.zeros(int(np.isfinite(later).sum())))
        times, rank = np.concatenate(t), np.repeat(np.arange(len(t)), [len(part) for part in t])
        order = np.lexsort((np.array([3, 0, 1, 2])[rank], times))
        times, values = times[order], np.concatenate(value)[order]
        area = np.concatenate([[0.0], np.cumsum(0.5 * (values[1:] + values[:-1]) * np.diff(times))])
        out[lane] = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    return out


def time_series(record: Record, slices: int = 300) -> TimeSeries:
    """Cut a run into slices of equal length.

    Args:
        record: of the run.
        slices: how many.
    """
    q = record.requests
    done = np.isfinite(q.finish_s)
    begin = float(q.arrival_s[done].min()) if done.any() else 0.0
    end = float(q.finish_s[done].max()) if done.any() else 1.0
    edges = np.linspace(begin, max(end, begin + 1e-9), slices + 1)
    if not record.parts:
        return _series(record, edges)
    own = [_series(part, edges) for part in record.parts]
    size = np.array([float(part.blocks * part.lanes) for part in record.parts])
    return TimeSeries(
        edges_s=edges,
        running=sum_of([x.running for x in own]),
        waiting=sum_of([x.waiting for x in own]),
        kv_usage=sum_of([x.kv_usage * w for x, w in zip(own, size / size.sum(), strict=True)]),
        prompt_tokens_per_s=sum_of([x.prompt_tokens_per_s for x in own]),
        output_tokens_per_s=sum_of([x.output_tokens_per_s for x in own]),
        arrivals_per_s=sum_of([x.arrivals_per_s for x, part in zip(own, record.parts, strict=True) if not part.decode]),
        running_by_instance=np.concatenate([x.running_by_instance for x in own]),
        waiting_by_instance=np.concatenate([x.waiting_by_instance for x in own]),
        kv_usage_by_instance=np.concatenate([x.kv_usage_by_instance for x in own]),
    )


def sum_of(parts: list[Floats]) -> Floats:
    """Element by element."""
    return np.asarray(np.sum(parts, axis=0))


def _series(record: Record, edges: Floats) -> TimeSeries:
    q, slices = record.requests, len(edges) - 1
    ran = np.isfinite(q.scheduled_s) & np.isfinite(q.first_token_s) & np.isfinite(q.finish_s)
    arrival, scheduled = q.arrival_s[ran], q.scheduled_s[ran]
    first, finish = q.first_token_s[ran], q.finish_s[ran]
    prompts = np.maximum(q.input_tokens[ran] - q.cached_tokens[ran], 0).astype(np.float64)
    prompts *= not record.decode
    answers = np.maximum(np.where(q.state == CANCELLED, q.generated_tokens, q.output_tokens)[ran] - 1, 0).astype(
        np.float64
    )
    firsts, _ = np.histogram(first, edges)
    arrivals, _ = np.histogram(arrival, edges)
    lane = q.instance[ran] // max(record.lanes_of_instance, 1)
    instances = record.instances
    running, waiting = np.zeros((instances, slices)), np.zeros((instances, slices))
    for i in range(instances):
        own: Mask = lane == i
        waiting[i] = _between(arrival[own], scheduled[own], edges)
        running[i] = _between(scheduled[own], finish[own], edges)
    cache = _cache(record, edges).reshape(instances, -1, slices).mean(axis=1)
    return TimeSeries(
        edges_s=edges,
        running=running.sum(axis=0),
        waiting=waiting.sum(axis=0),
        kv_usage=cache.mean(axis=0),
        prompt_tokens_per_s=_spread(scheduled, first, prompts, edges),
        output_tokens_per_s=_spread(first, finish, answers, edges) + firsts / np.diff(edges),
        arrivals_per_s=arrivals / np.diff(edges),
        running_by_instance=running,
        waiting_by_instance=waiting,
        kv_usage_by_instance=cache,
    )
