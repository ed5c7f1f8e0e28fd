"""When each local step of a lock-step algorithm begins and ends on a target, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from windtunnel import engine
from windtunnel.arrays import Floats
from windtunnel.learning.timing.exchanges import Exchanges
from windtunnel.learning.timing.links import NO_TIME
from windtunnel.learning.timing.payloads import Payloads
from windtunnel.learning.timing.schedule import Messages, Schedule, read_schedule
from windtunnel.learning.timing.steady import Begins, simulate_begins
from windtunnel.learning.timing.step_program import StepBuilder, StepProgram
from windtunnel.learning.timing.target import DrawnSpeeds, Target
from windtunnel.program.tables import Resources, Streams, TaskTable, Timeline

Program = tuple[TaskTable, Streams, Resources]
MOST_TASKS = 400_000
"""Tasks of a schedule that never repeats (drawn pairs, drawn seconds); longer runs go on at the mean of the second half
of what was simulated."""


@dataclass(frozen=True, slots=True)
class ClockPoints:
    """What points of a curve have cost, one entry a point."""

    time_s: Floats
    """From the start until all workers may begin the step of that number."""
    worker_bytes: Floats
    """That one worker has sent, on average."""
    joules: Floats
    """Of all workers and their links."""
    dollars: Floats
    """Of all workers; NaN where nobody states a price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockStepTiming:
    """An algorithm on a target."""

    time_s: Floats
    """When all workers may begin each local step, and the end of the last one: shape (steps + 1,)."""
    worker_bytes: Floats
    """Bytes that one worker has sent by then, on average: shape (steps + 1,)."""
    link_bytes: dict[str, float]
    """Link → bytes that all workers together have put on it."""
    compute_s: Floats
    """Seconds that each worker has computed, shape (workers,)."""
    utilisation: float
    """Computing seconds of all workers over the run's."""
    steady_utilisation: float
    """The same of one round in the middle of a long run."""
    simulated_steps: int
    """Local steps that the engine simulated; the rest repeat them exactly."""
    step_watts: float
    idle_watts: float
    joules_per_byte: float
    price_per_hour: float | None

    @property
    def idle_s(self) -> Floats:
        """Seconds that each worker has waited, shape (workers,)."""
        return np.asarray(self.time_s[-1] - self.compute_s)

    def at(self, steps: npt.ArrayLike) -> ClockPoints:
        """What a curve has cost after these local steps, each from 0 to the number of steps."""
        n, workers = np.asarray(steps, np.int64), len(self.compute_s)
        time, sent = self.time_s[n], self.worker_bytes[n]
        share = n / max(len(self.time_s) - 1, 1)
        computing = share * float(self.compute_s.sum())
        waiting = np.maximum(workers * time - computing, 0.0)
        joules = computing * self.step_watts + waiting * self.idle_watts + workers * sent * self.joules_per_byte
        price = np.nan if self.price_per_hour is None else self.price_per_hour
        return ClockPoints(time, sent, np.asarray(joules), np.asarray(workers * time / 3600.0 * price))


def time_lock_step(
    messages: Messages | Schedule,
    target: Target,
    workers: int,
    steps: int,
    *,
    seed: int = 1,
    whole: bool = False,
    late: int = 0,
) -> LockStepTiming:
    """Time an algorithm on a target; nothing is learned.

    Schedules that repeat are simulated until two rounds are alike to the last digits, and continued from there.

    Args:
        messages: What it sends in each local step.
        target: Step, layers, link and power of a worker.
        workers: How many there are.
        steps: Local steps of each worker.
        seed: Of drawn speeds, pairs and latencies.
        whole: Simulate every step, also where rounds repeat.
        late: Slowest workers of each step that are not waited for; they drop what they compute.
    """
    run = LockStepRun.of(messages, target, workers, steps, seed)
    run.late = late
    begins, speeds = run.begins(whole=whole), run.speeds
    sent, on_links = _traffic(run.schedule, run.payloads, run.exchanges or Exchanges(NO_TIME, seed), workers)
    compute = target.step_s * steps * speeds.factors if not speeds.by_round else begins.computed_s
    if late:  # those who are late stop with the others
        compute = np.full(workers, float(begins.computed_s.mean()))
    total = float(begins.time_s[-1])
    link = target.link
    return LockStepTiming(
        time_s=begins.time_s,
        worker_bytes=sent,
        link_bytes=on_links,
        compute_s=compute,
        utilisation=float(compute.mean()) / total if total else 1.0,
        steady_utilisation=run.utilisation(begins),
        simulated_steps=begins.simulated_steps,
        step_watts=target.step_watts,
        idle_watts=target.idle_watts,
        joules_per_byte=0.0 if link is None else link.joules_per_byte,
        price_per_hour=target.price_per_hour,
    )


@dataclass(slots=True)
class LockStepRun:
    """An algorithm on a target, ready to be simulated."""

    target: Target
    workers: int
    schedule: Schedule
    payloads: Payloads
    exchanges: Exchanges | None
    speeds: DrawnSpeeds
    seed: int
    late: int = 0
    """Slowest workers of each step that are not waited for."""
    _built: dict[tuple[int, ...], tuple[StepProgram, Program]] = field(default_factory=dict)

    @staticmethod
    def of(messages: Messages | Schedule, target: Target, workers: int, steps: int, seed: int) -> LockStepRun:
        """See `time_lock_step`."""
        exchanges = None if target.link is None else Exchanges(target.link, seed)
        schedule = read_schedule(messages, steps)
        speeds = DrawnSpeeds(target.speeds, workers, seed)
        return LockStepRun(target, workers, schedule, Payloads(target.layers), exchanges, speeds, seed)

    def begins(self, slower: float = 1.0, *, whole: bool = False) -> Begins:
        """When steps begin.

        Args:
            slower: What seconds of transfers are multiplied by; programs are built once for all of them.
            whole: Simulate every step, also where rounds repeat.
        """
        if self.exchanges is None and not self.speeds.differ and not whole:  # nobody ever waits: no engine is needed
            steps, step_s = self.schedule.steps, self.target.step_s
            return Begins(np.asarray(step_s * np.arange(steps + 1.0)), np.full(1, step_s * steps), step_s, 0)
        lanes = self.workers if not self.late and _lanes_differ(self.schedule, self.target, self.speeds) else 1
        steady = not (self.speeds.by_round or self.schedule.draws_pairs)
        repeats = not whole and (steady or (lanes == 1 and not self.late))
        most = self.schedule.steps if whole else self._most_steps(lanes)

        def simulated(steps: int, cuts: Sequence[int]) -> tuple[StepProgram, Timeline]:
            key = (steps, *cuts)
            if key not in self._built:
                program = self._builder(lanes).build(steps, cuts)
                self._built[key] = program, program.builder.build()
            program, (tasks, streams, resources) = self._built[key]
            if slower != 1.0:
                message = tasks.tags.index("message") if "message" in tasks.tags else -1
                tasks = replace(tasks, alone_s=np.where(tasks.tag == message, tasks.alone_s * slower, tasks.alone_s))
            return program, engine.simulate(tasks, streams, resources)

        return simulate_begins(simulated, self.schedule, repeats=repeats, most_steps=most)

    def utilisation(self, begins: Begins) -> float:
        """Computing seconds over all seconds of one round in the middle of a long run."""
        by_round = begins.computed_s.mean() / self.schedule.steps
        computing = by_round if self.speeds.by_round else self.target.step_s * self.speeds.factors.mean()
        return min(float(computing) / begins.steady_step_s, 1.0)

    def _most_steps(self, lanes: int) -> int:
        """Steps that are simulated where they do not repeat."""
        counts = np.bincount(self.schedule.codes, minlength=len(self.schedule.kinds))
        layered = [sum(m.during_backward or m.during_forward for m in found) for found in self.schedule.kinds]
        parts = [
            2 * len(found) + 4 * len(self.target.layers) * many
            for found, many in zip(self.schedule.kinds, layered, strict=True)
        ]
        a_step = lanes * float(counts @ np.array(parts)) / max(self.schedule.steps, 1)
        return max(round(MOST_TASKS / a_step), 1) if a_step else self.schedule.steps

    def _builder(self, lanes: int) -> StepBuilder:
        speeds = self.speeds

        def factors(at: int) -> Floats:
            if self.late:
                return self._last_waited_for(at)
            return speeds.of_round(at) if lanes > 1 else speeds.slowest

        return StepBuilder(
            target=self.target,
            workers=self.workers,
            lanes=lanes,
            messages=self.schedule.messages,
            factors=factors,
            exchanges=self.exchanges,
            payloads=self.payloads,
            seed=self.seed,
        )

    def _last_waited_for(self, at: int) -> Floats:
        """Seconds of a step of the last worker that a round waits for, over the typical one's, shape (1,)."""
        drawn = self.speeds.of_round(at) if self.speeds.by_round else self.speeds.factors
        place = len(drawn) - 1 - self.late
        return np.asarray(np.partition(drawn, place)[place : place + 1])


def _lanes_differ(schedule: Schedule, target: Target, speeds: DrawnSpeeds) -> bool:
    """Whether workers have to be simulated one by one.

    Where all wait for all, the slowest stands for everyone; where each waits for its partners, workers that are alike
    behave alike.
    """
    if speeds.by_round:
        return True
    kinds = {m.kind for found in schedule.kinds for m in found}
    apart = bool(kinds & {"pairs", "neighbours"})
    some = any(m.participants for found in schedule.kinds for m in found)
    spread = target.link is not None and target.link.latency_spread > 0.0
    return (apart or some) and (speeds.differ or (apart and spread))


def _traffic(
    schedule: Schedule, payloads: Payloads, exchanges: Exchanges, workers: int
) -> tuple[Floats, dict[str, float]]:
    """Bytes that one worker has sent before each step, on average, and bytes of all on each link."""
    sent = np.zeros(len(schedule.kinds))
    way_out, inside = sent.copy(), sent.copy()
    for i, found in enumerate(schedule.kinds):
        for message in found:
            nbytes = payloads.whole(message)
            taking_part = len(message.participants) or workers
            exchange = exchanges.of(message, workers, nbytes)
            sent[i] += exchange.sent_per_byte * nbytes * taking_part / workers
            way_out[i] += exchange.way_out_per_byte * nbytes
            inside[i] += exchange.inside_per_byte * nbytes
    counts = np.bincount(schedule.codes, minlength=len(sent))
    links = {"way out": float(way_out @ counts), "inside sites": float(inside @ counts)}
    return np.concatenate([[0.0], np.cumsum(sent[schedule.codes])]), {k: v for k, v in links.items() if v}
