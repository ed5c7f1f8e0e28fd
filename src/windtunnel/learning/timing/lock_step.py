"""When each local step of a lock-step algorithm begins and ends on a target, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats
from windtunnel.learning.timing.exchanges import Exchanges
from windtunnel.learning.timing.payloads import Payloads
from windtunnel.learning.timing.schedule import Messages, Schedule, read_schedule
from windtunnel.learning.timing.steady import simulate_begins
from windtunnel.learning.timing.step_program import StepBuilder
from windtunnel.learning.timing.target import DrawnSpeeds, Target


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


def time_lock_step(messages: Messages, target: Target, workers: int, steps: int, *, seed: int = 1) -> LockStepTiming:
    """Time an algorithm on a target; nothing is learned.

    Schedules that repeat are simulated until two rounds are alike to the last digits, and continued from there.

    Args:
        messages: What it sends in each local step.
        target: Step, layers, link and power of a worker.
        workers: How many there are.
        steps: Local steps of each worker.
        seed: Of drawn speeds, pairs and latencies.
    """
    schedule = read_schedule(messages, steps)
    payloads = Payloads(target.layers)
    exchanges = None if target.link is None else Exchanges(target.link, seed)
    speeds = DrawnSpeeds(target.speeds, workers, seed)
    lanes = workers if _lanes_differ(schedule, target, speeds) else 1

    def program() -> StepBuilder:
        return StepBuilder(
            target=target,
            workers=workers,
            lanes=lanes,
            messages=schedule.messages,
            factors=lambda at: speeds.of_round(at) if lanes > 1 else speeds.slowest,
            exchanges=exchanges,
            payloads=payloads,
            seed=seed,
        )

    begins = simulate_begins(program, schedule, repeats=lanes == 1 or not (speeds.by_round or schedule.draws_pairs))
    sent, on_links = _traffic(schedule, payloads, exchanges, workers)
    compute = target.step_s * steps * speeds.factors if not speeds.by_round else begins.computed_s
    total = float(begins.time_s[-1])
    link = target.link
    return LockStepTiming(
        time_s=begins.time_s,
        worker_bytes=sent,
        link_bytes=on_links,
        compute_s=compute,
        utilisation=float(compute.mean()) / total if total else 1.0,
        steady_utilisation=min(float(compute.mean()) / steps / begins.steady_step_s, 1.0),
        simulated_steps=begins.simulated_steps,
        step_watts=target.step_watts,
        idle_watts=target.idle_watts,
        joules_per_byte=0.0 if link is None else link.joules_per_byte,
        price_per_hour=target.price_per_hour,
    )


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
    schedule: Schedule, payloads: Payloads, exchanges: Exchanges | None, workers: int
) -> tuple[Floats, dict[str, float]]:
    """Bytes that one worker has sent before each step, on average, and bytes of all on each link."""
    sent = np.zeros(len(schedule.kinds))
    way_out, inside = sent.copy(), sent.copy()
    for i, found in enumerate(schedule.kinds):
        for message in found:
            nbytes = payloads.whole(message)
            taking_part = len(message.participants) or workers
            if exchanges is None:
                sent[i] += nbytes * taking_part / workers
                continue
            exchange = exchanges.of(message, workers, nbytes)
            sent[i] += exchange.sent_per_byte * nbytes * taking_part / workers
            way_out[i] += exchange.way_out_per_byte * nbytes
            inside[i] += exchange.inside_per_byte * nbytes
    counts = np.bincount(schedule.codes, minlength=len(sent))
    links = {"way out": float(way_out @ counts), "inside sites": float(inside @ counts)}
    return np.concatenate([[0.0], np.cumsum(sent[schedule.codes])]), {k: v for k, v in links.items() if v}
