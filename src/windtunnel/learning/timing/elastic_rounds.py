"""Rounds of workers that fail and join: what is lost, who takes part, when each round ends.

Workers that are there when a round begins take part in it. Who fails while it lasts loses its local steps of the round
and its states; the others wait until they know, exchange without it and go on (a collective that is under way is given
up and done again among those that are left). Who is back, or comes late, joins at the next border of rounds.

The learning side is given the survivors of each round (`ElasticRounds.participants` is a rule of participation), so
that clock and curve see the same workers. Source: INTELLECT-1 (arXiv 2412.01152), section 2.2; PCCL (arXiv 2505.14065).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.learning.drivers.outages import Outage
from windtunnel.learning.job import Job
from windtunnel.learning.timing.lock_step import LockStepRun
from windtunnel.learning.timing.schedule import Messages, Schedule, read_schedule
from windtunnel.learning.timing.target import Target


class WorkerOutages(Protocol):
    """When workers fail and join; `drivers.outages.Outages` draws them from a failure profile."""

    def joins(self, worker: int) -> float:
        """When a worker joins first, in seconds."""

    def next(self, worker: int, number: int) -> Outage | None:
        """The next failure of a worker that has failed `number` times; None where it never fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticRounds:
    """Rounds as they went."""

    begin_s: Floats
    """Shape (rounds,)."""
    end_s: Floats
    began: tuple[tuple[int, ...], ...]
    """Workers that began each round, ascending."""
    survived: tuple[tuple[int, ...], ...]
    """Those whose results count."""
    waited_s: Floats
    """Of each round: until the others knew of failures, and exchanges that were given up."""
    computed_s: Floats
    """Of each worker, steps that were lost included, shape (workers,)."""
    steps_of_round: int
    step_s: float
    workers: int

    @property
    def failures(self) -> int:
        """Workers that were lost during rounds."""
        return sum(len(a) - len(b) for a, b in zip(self.began, self.survived, strict=True))

    @property
    def kept_worker_steps(self) -> int:
        """Local steps whose results count, of all workers."""
        return self.steps_of_round * sum(len(who) for who in self.survived)

    @property
    def utilisation(self) -> float:
        """Seconds of computing that count over those of all workers, whether they were there or not."""
        return self.kept_worker_steps * self.step_s / (self.workers * float(self.end_s[-1]))

    def members(self) -> dict[str, Any]:
        """Who began and who survived each round, as plain data for a curve's key; empty where all always do."""
        everyone = tuple(range(self.workers))
        if all(who == everyone for who in self.survived):
            return {}
        return {"began": [list(who) for who in self.began], "survived": [list(who) for who in self.survived]}

    def participants(self, job: Job, round_number: int) -> Ints:
        """Workers of a lock-step round, as `compose.Participants` has it."""
        del job
        return np.array(self.survived[min(round_number, len(self.survived) - 1)], np.int64)


def elastic_rounds(
    messages: Messages | Schedule, target: Target, workers: int, rounds: int, outages: WorkerOutages, *, seed: int = 1
) -> ElasticRounds:
    """Time rounds of workers that fail and join.

    Args:
        messages: What a periodic algorithm sends; what it says of participants is not read.
        target: Step and link of a worker.
        workers: All that ever take part.
        rounds: How many, each with at least one worker.
        outages: When workers fail and join; rounds that nobody can begin wait for the first to come.
        seed: Of drawn latencies and speeds.

    Raises:
        ValueError: the schedule does not repeat, or nobody ever comes.
    """
    if isinstance(messages, Schedule):
        schedule = messages
    else:
        schedule = read_schedule(messages, _ENOUGH)
    if schedule.first + 2 * schedule.period > schedule.steps:
        raise ValueError("messages: rounds of an elastic run have to repeat")
    computing = target.step_s * schedule.period
    known: dict[int, float] = {}

    def round_s(n: int) -> float:
        """Seconds of an undisturbed round among n workers."""
        if n not in known:
            run = LockStepRun.of(schedule, target, n, schedule.steps, seed)
            known[n] = computing if n == 1 else run.begins().steady_step_s * schedule.period
        return known[n]

    return _play(round_s, computing, workers, rounds, outages, schedule.period, target.step_s)


_ENOUGH = 20_000
"""Steps in which a schedule has to repeat."""


def _play(
    round_s: Callable[[int], float],
    computing: float,
    workers: int,
    rounds: int,
    outages: WorkerOutages,
    steps_of_round: int,
    step_s: float,
) -> ElasticRounds:
    there_s = np.array([outages.joins(i) for i in range(workers)])
    failed = [0] * workers
    coming = [outages.next(i, 0) for i in range(workers)]
    now = 0.0
    begins, ends, began, survived, waits = [], [], [], [], []
    computed = np.zeros(workers)
    for _ in range(rounds):
        now = max(now, float(there_s.min()))
        if now == inf:
            raise ValueError("outages: nobody ever comes")
        members = [i for i in range(workers) if there_s[i] <= now]
        dies = {i: there_s[i] + out.after_s for i in members if (out := coming[i]) is not None}
        left, end, waited = _one(round_s, computing, now, members, dies, coming)
        if not left:
            end = max(end, now)
        begins.append(now)
        ends.append(end)
        began.append(tuple(members))
        survived.append(tuple(left))
        waits.append(waited)
        for i in members:
            out = coming[i]
            computed[i] += min(computing, dies.get(i, inf) - now)
            if out is not None and dies[i] < end:
                there_s[i] = dies[i] + out.back_s
                failed[i] += 1
                coming[i] = outages.next(i, failed[i])
        now = end
    return ElasticRounds(
        begin_s=np.array(begins),
        end_s=np.array(ends),
        began=tuple(began),
        survived=tuple(survived),
        waited_s=np.array(waits),
        computed_s=computed,
        steps_of_round=steps_of_round,
        step_s=step_s,
        workers=workers,
    )


def _one(
    round_s: Callable[[int], float],
    computing: float,
    now: float,
    members: list[int],
    dies: dict[int, float],
    coming: list[Outage | None],
) -> tuple[list[int], float, float]:
    """(survivors, end, seconds waited) of one round."""
    left = sorted(members)
    start = now + computing  # of the exchange
    waited = 0.0
    while left:
        end = start + max(round_s(len(left)) - computing, 0.0)
        hit = [i for i in left if i in dies and dies[i] < end]
        if not hit:
            return left, end, waited
        first = min(hit, key=lambda i: dies[i])
        out = coming[first]
        assert out is not None
        knows = dies[first] + out.noticed_s
        left = [i for i in left if i != first]
        again = max(start, knows)
        waited += again - start
        start = again
    return left, start, waited
