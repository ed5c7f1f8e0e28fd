"""When each local step of a lock-step algorithm begins and ends on a target, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from windtunnel import engine
from windtunnel.arrays import Floats
from windtunnel.learning.messages import Message
from windtunnel.learning.timing.exchanges import Exchanges
from windtunnel.learning.timing.links import NO_TIME
from windtunnel.learning.timing.payloads import Payloads, payloads_of
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
    messages: Messages | Schedule, target: Target, workers: int, steps: int, *, seed: int = 1, whole: bool = False
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
    """
    run = LockStepRun.of(messages, target, workers, steps, seed)
    begins = run.begins(whole=whole)
    sent, on_links = _traffic(run.schedule, run.payloads, run.exchanges or Exchanges(NO_TIME, seed), workers)
    compute = run.computed_s(begins)
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
    _built: dict[tuple[int, ...], tuple[StepProgram, Program]] = field(default_factory=dict)

    @staticmethod
    def of(messages: Messages | Schedule, target: Target, workers: int, steps: int, seed: int) -> LockStepRun:
        """See `time_lock_step`."""
        exchanges = None if target.link is None else Exchanges(target.link, seed)
        speeds = DrawnSpeeds(target.speeds, workers, seed)
        spread = target.link is not None and target.link.latency_spread > 0.0
        schedule = read_schedule(messages, steps, who_matters=speeds.differ or spread)
        return LockStepRun(target, workers, schedule, payloads_of(target.layers), exchanges, speeds, seed)

    def begins(self, slower: float = 1.0, *, whole: bool = False) -> Begins:
        """When steps begin.

        Args:
            slower: What seconds of transfers are multiplied by; programs are built once for all of them.
            whole: Simulate every step, also where rounds repeat.
        """
        if self.exchanges is None and not self.speeds.differ and not whole:  # nobody ever waits: no engine is needed
            steps, step_s = self.schedule.steps, self.target.step_s
            return Begins(np.asarray(step_s * np.arange(steps + 1.0)), np.full(1, step_s * steps), step_s, 0)
        lanes = self.workers if _lanes_differ(self.schedule, self.target, self.speeds) else 1
        repeats = not whole and (lanes == 1 or not (self.speeds.by_round or self.schedule.draws_pairs))
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
        a_step = float(self.computed_s(begins).mean()) / self.schedule.steps
        return min(a_step / begins.steady_step_s, 1.0)

    def computed_s(self, begins: Begins) -> Floats:
        """Seconds that each worker computes, shape (workers,)."""
        late = any(m.late for found in self.schedule.kinds for m in found)
        if len(begins.computed_s) == self.workers and (self.speeds.by_round or late):
            return begins.computed_s
        return self.target.step_s * self.speeds.factors * self._steps_computed()

    def _steps_computed(self) -> Floats:
        """Local steps that each worker computes: clients of a round those of their rounds, shape (workers,)."""
        steps = np.zeros(self.workers)
        done = 0
        rounds = [_of_clients(found) for found in self.schedule.kinds]
        some = np.array([who is not None for who in rounds])
        for at in np.flatnonzero(some[self.schedule.codes]) if len(some) else ():
            who = rounds[self.schedule.codes[at]]
            assert who is not None
            if self.speeds.differ:
                steps[list(who)] += at + 1 - done
            else:
                steps += (at + 1 - done) * len(who) / self.workers
            done = int(at) + 1
        return steps + (self.schedule.steps - done)

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
        return StepBuilder(
            target=self.target,
            workers=self.workers,
            lanes=lanes,
            messages=self.schedule.messages,
            factors=lambda at: speeds.of_round(at) if lanes > 1 else speeds.slowest,
            exchanges=self.exchanges,
            payloads=self.payloads,
            seed=self.seed,
        )


def _lanes_differ(schedule: Schedule, target: Target, speeds: DrawnSpeeds) -> bool:
    """Whether workers have to be simulated one by one.

    Where all wait for all, the slowest stands for everyone; where each waits for its partners, workers that are alike
    behave alike.
    """
    if speeds.by_round:
        return True
    in_pairs = [m for found in schedule.kinds for m in found if m.kind in ("pairs", "neighbours")]
    if any(m.participants for m in in_pairs):
        return True
    apart = bool(in_pairs)
    some = any(m.participants or m.late for found in schedule.kinds for m in found)
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


def _of_clients(found: tuple[Message, ...]) -> tuple[int, ...] | None:
    """Workers whose round ends with these messages; None where everybody computes on."""
    return next((m.participants for m in found if m.kind == "to_server" and m.participants), None)
