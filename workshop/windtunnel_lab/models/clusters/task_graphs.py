"""Task graphs on unlike processing elements: HEFT's fixed plan against ranks that choose when a processor falls free.

Jobs (graphs of tasks) arrive over time. HEFT ranks tasks by the mean time from them to the end of their job and gives
each the element where it ends first, gaps included, by expected times; the elements keep that order. The ranked list
decides later: a task that is ready goes to the element that should end it first as things stand, which runs by rank.
Expected and real times differ by noise.

Source: Topcuoglu, Hariri and Wu, HEFT, IEEE TPDS 13(3), 2002; Sung et al., DeepSoCS, Electronics 9(6), 2020: tasks
chosen by a learned rank, elements by earliest finish. The rank there is a graph network; here it weighs four features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """One kind of job."""

    seconds: Floats
    """Expected, shape (tasks, elements)."""
    edges: dict[tuple[int, int], float]
    """(task, successor) → seconds of the message where they run on unlike elements. Successors have larger numbers."""

    @property
    def before(self) -> list[list[int]]:
        """Predecessors of each task."""
        return [[a for a, b in self.edges if b == task] for task in range(len(self.seconds))]

    @property
    def after(self) -> list[list[int]]:
        """Successors of each task."""
        return [[b for a, b in self.edges if a == task] for task in range(len(self.seconds))]


def upward_rank(graph: TaskGraph) -> Floats:
    """Mean seconds from the start of each task to the end of the job, messages included."""
    mean, rank = graph.seconds.mean(1), np.zeros(len(graph.seconds))
    after = graph.after
    for task in range(len(rank) - 1, -1, -1):
        rank[task] = mean[task] + max((graph.edges[task, s] + rank[s] for s in after[task]), default=0.0)
    return rank


@dataclass(frozen=True, slots=True)
class Outcome:
    """Jobs that ran."""

    start_s: Floats
    """Shape (jobs, tasks)."""
    end_s: Floats
    element: Ints
    latency_s: Floats
    """From arrival to the end of a job's last task, shape (jobs,)."""


def _noisy(graph: TaskGraph, jobs: int, noise: float, seed: int) -> Floats:
    """Real seconds, shape (jobs, tasks, elements): expected ones times a log-normal factor of mean 1."""
    rng = np.random.default_rng(seed)
    factor = np.exp(noise * rng.standard_normal((jobs, *graph.seconds.shape)) - 0.5 * noise * noise)
    return np.asarray(graph.seconds[None] * factor)


def heft(graph: TaskGraph, arrivals: Sequence[float], *, noise: float = 0.0, seed: int = 0) -> Outcome:
    """Jobs planned at their arrival by expected times, elements keep the planned order whatever happens."""
    tasks, elements = graph.seconds.shape
    real, before = _noisy(graph, len(arrivals), noise, seed), graph.before
    order = np.argsort(-upward_rank(graph), kind="stable")
    planned: list[list[tuple[float, float, int, int]]] = [[] for _ in range(elements)]
    for job, arrival in enumerate(arrivals):
        ends, where = np.zeros(tasks), np.zeros(tasks, np.int64)
        for task in order:
            best: tuple[float, float, int] | None = None
            for p in range(elements):
                ready = max(
                    (ends[b] + (graph.edges[b, task] if where[b] != p else 0.0) for b in before[task]), default=arrival
                )
                begin = _gap(planned[p], max(float(ready), arrival), float(graph.seconds[task, p]))
                end = begin + graph.seconds[task, p]
                if best is None or end < best[0] - 1e-12:
                    best = (end, begin, p)
            assert best is not None
            ends[task], where[task] = best[0], best[2]
            planned[best[2]].append((best[1], best[0], job, int(task)))
            planned[best[2]].sort()
    return _kept_order(graph, arrivals, real, [[(j, t) for _, _, j, t in own] for own in planned])


def _gap(own: list[tuple[float, float, int, int]], ready: float, length: float) -> float:
    """The first time from `ready` on at which an element is free for so long."""
    at = ready
    for begin, end, _, _ in own:
        if at + length <= begin + 1e-12:
            return at
        at = max(at, end)
    return at


def _kept_order(
    graph: TaskGraph, arrivals: Sequence[float], real: Floats, order: list[list[tuple[int, int]]]
) -> Outcome:
    """Real times where each element runs its tasks in a given order."""
    tasks, before = len(graph.seconds), graph.before
    start, end = (np.full((len(arrivals), tasks), np.nan) for _ in range(2))
    where = np.zeros((len(arrivals), tasks), np.int64)
    for p, own in enumerate(order):
        for job, task in own:
            where[job, task] = p
    at, free, left = [0] * len(order), [0.0] * len(order), sum(map(len, order))
    while left:
        for p, own in enumerate(order):
            while at[p] < len(own):
                job, task = own[at[p]]
                if any(np.isnan(end[job, b]) for b in before[task]):
                    break
                ready = max(
                    (end[job, b] + (graph.edges[b, task] if where[job, b] != p else 0.0) for b in before[task]),
                    default=arrivals[job],
                )
                start[job, task] = max(free[p], ready)
                free[p] = end[job, task] = start[job, task] + real[job, task, p]
                at[p] += 1
                left -= 1
    return Outcome(start, end, where, end.max(1) - np.asarray(arrivals))


UPWARD = np.array([1.0, 0.0, 0.0, 0.0])
"""The rank that HEFT uses, decided late."""


def ranked(
    graph: TaskGraph, arrivals: Sequence[float], weights: Floats = UPWARD, *, noise: float = 0.0, seed: int = 0
) -> Outcome:
    """Tasks chosen late by a weighted rank; elements by earliest finish as things stand.

    A task that is ready goes to the element where it should end first, counting what waits there; its messages travel;
    an element that falls free runs the one of highest rank whose messages are there.

    Features of a task, in units of the job's own length: time to the end of the job, its own mean time, how much unlike
    elements differ for it, how long its job has waited.
    """
    tasks, elements = graph.seconds.shape
    real, before = _noisy(graph, len(arrivals), noise, seed), graph.before
    rank, mean = upward_rank(graph), graph.seconds.mean(1)
    unit = rank.max()
    fixed = np.stack([rank, mean, graph.seconds.max(1) - graph.seconds.min(1)], 1) / unit @ weights[:3]
    start, end, there = (np.full((len(arrivals), tasks), np.nan) for _ in range(3))
    where = np.full((len(arrivals), tasks), -1)
    free, backlog, now = np.zeros(elements), np.zeros(elements), 0.0
    queues: list[list[tuple[int, int]]] = [[] for _ in range(elements)]
    waiting = {(j, t) for j in range(len(arrivals)) for t in range(tasks)}

    def priority(job: int, task: int) -> float:
        return float(fixed[task] + weights[3] * (now - arrivals[job]) / unit)

    while waiting or any(queues):
        ready = [x for x in waiting if arrivals[x[0]] <= now and all(end[x[0], b] <= now for b in before[x[1]])]
        for job, task in sorted(ready, key=lambda x: (-priority(*x), x)):
            waiting.discard((job, task))
            message = [
                max((end[job, b] + graph.edges[b, task] * (where[job, b] != p) for b in before[task]), default=now)
                for p in range(elements)
            ]
            begin = np.maximum(np.maximum(free, now) + backlog, message)
            p = int((begin + graph.seconds[task]).argmin())
            where[job, task], there[job, task] = p, max(message[p], now)
            backlog[p] += graph.seconds[task, p]
            queues[p].append((job, task))
        for p, own in enumerate(queues):
            held = [x for x in own if there[x] <= now]
            if free[p] <= now and held:
                job, task = min(held, key=lambda x: (-priority(*x), x))
                own.remove((job, task))
                backlog[p] -= graph.seconds[task, p]
                start[job, task] = now
                free[p] = end[job, task] = now + real[job, task, p]
        times = np.concatenate([free, arrivals, end.ravel(), there.ravel()])
        later = times[times > now + 1e-12]
        if len(later) == 0:
            break
        now = float(later.min())
    return Outcome(start, end, where, end.max(1) - np.asarray(arrivals))


def learned(
    graph: TaskGraph, cases: Sequence[tuple[Sequence[float], float, int]], *, rounds: int = 4, population: int = 8
) -> Floats:
    """Weights of the rank by the cross-entropy method on the mean latency of cases (arrivals, noise, seed)."""
    rng = np.random.default_rng(0)
    mean, spread = UPWARD.copy(), np.array([0.5, 1.0, 1.0, 1.0])
    for _ in range(rounds):
        tried = np.concatenate([mean[None, :], rng.normal(mean, spread, (population - 1, 4))])
        cost = [np.mean([ranked(graph, a, w, noise=n, seed=s).latency_s.mean() for a, n, s in cases]) for w in tried]
        elite = tried[np.argsort(cost)[: max(population // 4, 2)]]
        mean, spread = elite.mean(0), elite.std(0) + 0.05
    return mean
