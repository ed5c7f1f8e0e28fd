"""What the reference loop records next to the requests' times: sums, histogram and events, as the jitted loop does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.arrays import Floats

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


class Recorder:
    """Keeps what `loop.Outcome` holds.

    Args:
        instances: how many.
        every: keep one event in that many; 0 keeps none.
    """

    def __init__(self, instances: int, every: int) -> None:
        from windtunnel.serving.event_loop.kernels import records
        from windtunnel.serving.event_loop.kernels.histogram import add_gaps_in_python

        self.records, self.add_gaps = records, add_gaps_in_python
        self.every, self.events = every, 0
        self.totals = np.zeros(instances, records.TOTAL)
        self.between_tokens: Floats = np.zeros(records.HISTOGRAM_BINS)
        self.rows: list[tuple[float, ...]] = []

    @property
    def series(self) -> Any:
        """(E,) records `records.SERIES`."""
        return np.array(self.rows, self.records.SERIES)

    def entered(self, one: Instance, q: Request) -> None:
        """A request was scheduled for the first time."""
        total = self.totals[one.index]
        total["asked_tokens"] += q.input
        total["hit_tokens"] += q.hit

    def preempted(self, one: Instance) -> None:
        """A request was preempted."""
        self.totals[one.index]["preemptions"] += 1

    def formed(self, one: Instance, tokens: int, pairs: float) -> None:
        """The next iteration or run begins."""
        total = self.totals[one.index]
        total["running_max"] = max(total["running_max"], one.running)
        total["kv_max"] = max(total["kv_max"], one.used)
        if tokens:
            total["prompt_iterations"] += 1
            total["prompt_tokens"] += tokens
            total["prompt_pairs"] += pairs

    def waited(self, one: Instance, seconds: float) -> None:
        """Its micro-batch waits for others of the same pipeline."""
        self.totals[one.index]["stage_wait_s"] += seconds

    def first_step(self, seconds: float, gap: float | None) -> None:
        """A step that is no time between two tokens of an answer that has just joined; what is, if anything."""
        self.add_gaps(self.between_tokens, seconds, 0.0, 1, -1)
        if gap is not None:
            self.add_gaps(self.between_tokens, gap, 0.0, 1, 1)

    def returned(self, gap: float, step_s: float | None) -> None:
        """A request that was preempted makes its next token: the time since its last one, in place of a step's."""
        if step_s is not None:
            self.add_gaps(self.between_tokens, step_s, 0.0, 1, -1)
        self.add_gaps(self.between_tokens, gap, 0.0, 1, 1)

    def since(self, gap: float) -> None:
        """A token after its request had been preempted: the time since the one before."""
        self.add_gaps(self.between_tokens, gap, 0.0, 1, 1)

    def ended(self, one: Instance, now: float) -> None:
        """It ends; nothing of the instance has changed yet."""
        steps, decoding, seconds = one.steps, len(one.decoding), now - one.start
        self.event(one, one.start, seconds, (decoding, one.running - decoding, one.waiting, one.used), max(steps, 1))
        total = self.totals[one.index]
        total["busy_s"] += seconds
        total["running_s"] += seconds * one.running
        if steps and decoding:
            self.add_gaps(self.between_tokens, one.step_s, one.slope_s, steps, decoding)
            total["iterations"] += steps
            total["decode_tokens"] += float(steps) * decoding
            pace = one.limits.tokens_per_step * 1e-6
            total["kv_tokens"] += steps * one.kv() + decoding * pace * (0.5 * steps * (steps - 1))
        else:
            total["iterations"] += 1

    def event(self, one: Instance, start: float, seconds: float, batch: tuple[int, ...], steps: int = 1) -> None:
        """An iteration or run for the series, with decoding, other running and queued requests, and blocks."""
        if self.every:
            if self.events % self.every == 0:
                self.rows.append((start, seconds, steps, *batch, one.index))
            self.events += 1

    def ran(self, one: Instance, busy_s: float, running_s: float, used_s: float) -> None:
        """An instance that runs several tasks at once, for a time in which none of them changed."""
        total = self.totals[one.index]
        total["busy_s"] += busy_s
        total["running_s"] += running_s
        total["used_s"] += used_s

    def iteration(self, one: Instance, decoding: int, kv: float, steps: int = 1) -> None:
        """Such a task: a prompt's iteration, or decode steps of so many sequences over so many cached tokens."""
        total = self.totals[one.index]
        total["iterations"] += steps
        total["decode_tokens"] += float(steps) * decoding
        total["kv_tokens"] += steps * kv

    def step(self, seconds: float, decoding: int, steps: int = 1) -> None:
        """Times between tokens of so many sequences."""
        self.add_gaps(self.between_tokens, seconds, 0.0, steps, decoding)

    def grown(self, one: Instance, now: float) -> None:
        """Blocks of the steps are counted, and nobody has left."""
        total = self.totals[one.index]
        total["used_s"] += (now - one.start) * one.used
        total["kv_max"] = max(total["kv_max"], one.used)
