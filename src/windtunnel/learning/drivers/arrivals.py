"""The arrival-driven driver: completions of the clock decide what comes next.

A worker fetches (a download), computes its local steps, uploads, and its result arrives; the algorithm merges it and
says who may fetch next. Workers fail, join late, time out, and are given up where more were asked than are waited for.
Everything that happens at one instant happens in the order of `_Kind`, then of workers; so whoever arrives together is
merged before anybody fetches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from math import ceil, inf, isfinite

import numpy as np

from windtunnel.arrays import Floats, Reals
from windtunnel.learning.algorithms.arrival import Answer, ArrivalAlgorithm, Server, Upload
from windtunnel.learning.compose import is_plain
from windtunnel.learning.drivers.arrival_results import Accounts, ArrivalCurve
from windtunnel.learning.drivers.flights import Flight, LivingWorker
from windtunnel.learning.drivers.outages import Outages
from windtunnel.learning.drivers.pace import Pace
from windtunnel.learning.drivers.rounds import Segment, Stack
from windtunnel.learning.drivers.transfers import Direction, IndependentLinks, Transfers
from windtunnel.learning.job import Job
from windtunnel.learning.tasks.base import Shapes, Task
from windtunnel.one_thread import one_thread
from windtunnel.progress import counting

STARVED = 20
"""A run ends where this many times more rounds were given up than have arrived (and 1,000 beyond)."""


class _Kind(IntEnum):
    """What happens, in the order within one instant."""

    JOIN = 0
    FETCHED = 1
    ASK = 2
    """For fresh parameters midway."""
    FRESH = 3
    """They have come."""
    COMPUTED = 4
    ARRIVED = 5
    FAIL = 6
    LOST = 7
    """The server knows that a round will not arrive."""
    WAKE = 8
    START = 9
    """Free slots are filled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalSetting:
    """What the clock says, and when to stop."""

    pace: Pace
    transfers: Transfers = field(default_factory=IndependentLinks)
    shapes: Shapes | None = None
    """Tensors of the target, for bytes on the links; None: those of the task."""
    outages: Outages | None = None
    samples: Floats | None = None
    """Samples of each worker, shape (workers,)."""
    evaluate_every: int
    """Local steps (`ArrivalCurve.steps`) between points of the curve."""
    stop_s: float = inf
    stop_loss: float | None = None
    """The run ends at the first point with this loss on held-out data or less."""


def run_arrivals(algorithm: ArrivalAlgorithm, task: Task, job: Job, setting: ArrivalSetting) -> ArrivalCurve:
    """Train for real, in the order of the clock, until `job.steps` local steps have arrived for each active worker.

    Args:
        algorithm: Built for `job`.
        task: With as many workers as the job.
        job: Steps, learning rates, random numbers. The learning rate follows the steps that have arrived.
        setting: The clock, and when to stop.
    """
    with one_thread():
        return _Run(algorithm, task, job, setting).run()


class _Run:
    """One run; its methods are named after what happens."""

    def __init__(self, algorithm: ArrivalAlgorithm, task: Task, job: Job, setting: ArrivalSetting) -> None:
        self.algorithm, self.task, self.job, self.setting = algorithm, task, job, setting
        self.rules = algorithm.rules
        down, up = self.rules.messages
        shapes = setting.shapes or task.shapes
        self.down_bytes, self.up_bytes = down.nbytes(shapes), up.nbytes(shapes)
        self.width = self.rules.who.width(job.workers)
        self.slots = self.rules.who.slots(job.workers)
        self.server: Server = algorithm.start(task.initial())
        self.stack = Stack(task, job, self.rules.proximal, self.rules.first_gradients)
        self.workers = [LivingWorker() for _ in range(job.workers)]
        self.flights: dict[int, Flight] = {}
        self.waiting: set[int] = set()
        """Their uploads have arrived, and they are not released."""
        self.missing: dict[int, int] = {}
        """Failed with a round on its way that the server still waits for: worker → serial."""
        self.idle: set[int] = set()
        self.uncomputed: dict[int, Flight] = {}
        """By serial."""
        self.instant = isinstance(setting.transfers, IndependentLinks) and setting.transfers.instant
        self.keys: dict[int, tuple[_Kind, int, int]] = {}
        """Transfer → what its end means, its worker, the serial of the round."""
        self.heap: list[tuple[float, _Kind, int, int]] = []
        self.start_at: float | None = None
        self.serials = self.next_key = self.choices = 0
        self.now = 0.0
        self.arrived_steps = self.next_point = 0
        self.told = Accounts()
        self.ended = ""
        actions = {
            _Kind.JOIN: self.joins,
            _Kind.FETCHED: self.has_fetched,
            _Kind.ASK: self.asks_midway,
            _Kind.FRESH: self.gets_fresh,
            _Kind.COMPUTED: self.has_computed,
            _Kind.ARRIVED: self.arrives,
            _Kind.FAIL: self.fails,
            _Kind.LOST: self.is_lost,
            _Kind.WAKE: self.wakes,
            _Kind.START: self.fills_slots,
        }
        self.does = [actions[kind] for kind in _Kind]

    def run(self) -> ArrivalCurve:
        """Events until the end."""
        self.evaluate()
        outages = self.setting.outages
        for worker in range(self.job.workers):
            self.at(0.0 if outages is None else outages.joins(worker), _Kind.JOIN, worker)
        heap, transfers, does = self.heap, self.setting.transfers, self.does
        total = float(self.job.steps * self.width)
        work = counting("local steps", lambda: (self.arrived_steps, total), "learning.steps, learning.workers")
        with work as pace, np.errstate(over="ignore", invalid="ignore"):
            while not self.ended:
                pace.check()
                ends = transfers.next_end_s()
                if heap and heap[0][0] < ends:
                    now, kind, worker, serial = heappop(heap)
                elif ends < inf:
                    for key in transfers.finish(ends):
                        heappush(heap, (ends, *self.keys.pop(key)))
                    continue
                else:
                    self.ended = "nobody"
                    break
                if now > self.setting.stop_s:
                    self.now, self.ended = self.setting.stop_s, "time"
                    break
                self.now = now
                does[kind](worker, serial)
        return self.result()

    def at(self, time_s: float, kind: _Kind, worker: int = 0, serial: int = 0) -> None:
        """Something will happen."""
        heappush(self.heap, (time_s, kind, worker, serial))

    # -- a round -----------------------------------------------------------------------------------------------------

    def wants_start(self, at_s: float) -> None:
        """Free slots are filled at a time, once however often it is asked for."""
        if self.start_at is None or at_s < self.start_at:
            self.start_at = at_s
            self.at(at_s, _Kind.START)

    def fills_slots(self, _worker: int, _serial: int) -> None:
        """Choose idle workers for free slots; they fetch now."""
        if self.start_at is None or self.now < self.start_at:
            return
        self.start_at = None
        free = self.slots - len(self.flights) - len(self.waiting) - len(self.missing)
        if free <= 0 or not self.idle:
            return
        chosen = self.rules.who.choose(self.idle, self.job.workers, free, self.choices, self.job.draws)
        self.choices += 1
        for worker in chosen:
            self.begins(worker)

    def begins(self, worker: int) -> None:
        """A worker fetches."""
        self.idle.discard(worker)
        own = self.workers[worker]
        steps = self.algorithm.assign(self.server, worker, self.now)
        self.serials += 1
        fetched = self.server.anchor[0]
        keeps = self.rules.keeps_inner
        segment = Segment(
            worker=worker,
            start=fetched,
            fetched=fetched,
            batch=own.batches,
            steps=steps,
            progress=self.arrived_steps // self.width,
            age=own.age if keeps else 0,
            inner=own.inner if keeps else None,
        )
        flight = Flight(
            worker=worker,
            serial=self.serials,
            version=self.server.version,
            fetched=fetched,
            steps=steps,
            number=own.rounds,
            batch=own.batches,
            fetched_s=self.now,
            progress=segment.progress,
            ready=self.rules.midway is None,
            segment=segment,
            since_s=self.now,
        )
        own.rounds += 1
        own.batches += steps
        self.flights[worker] = flight
        self.uncomputed[flight.serial] = flight
        if self.instant:
            self.told.bytes_down += self.down_bytes
            self.has_fetched(worker, flight.serial)
        else:
            flight.transfer = self.sends(_Kind.FETCHED, flight, self.down_bytes, "down")
        if self.rules.timeout_s < inf:
            self.at(self.now + self.rules.timeout_s, _Kind.LOST, worker, flight.serial)

    def sends(self, kind: _Kind, flight: Flight, nbytes: float, direction: Direction) -> int | None:
        """A message is on its way; returns its key, None where it takes no time."""
        if direction == "up":
            self.told.bytes_up += nbytes
        else:
            self.told.bytes_down += nbytes
        if self.instant:
            heappush(self.heap, (self.now, kind, flight.worker, flight.serial))
            return None
        self.next_key += 1
        self.keys[self.next_key] = (kind, flight.worker, flight.serial)
        self.setting.transfers.start(self.next_key, flight.worker, nbytes, direction, self.now)
        return self.next_key

    def flight_of(self, worker: int, serial: int) -> Flight | None:
        """The round that an event is about, None where it was given up."""
        flight = self.flights.get(worker)
        return flight if flight is not None and flight.serial == serial else None

    def has_fetched(self, worker: int, serial: int) -> None:
        """A worker computes."""
        flight = self.flight_of(worker, serial)
        if flight is None:
            return
        self.workers[worker].transfer_s += self.now - flight.since_s
        flight.phase, flight.since_s, flight.transfer = "compute", self.now, None
        flight.compute_s = self.setting.pace.round_s(worker, flight.number, flight.steps, self.now)
        self.at(self.now + flight.compute_s, _Kind.COMPUTED, worker, serial)
        if self.rules.midway is not None:
            self.at(self.now + self.rules.midway * flight.compute_s, _Kind.ASK, worker, serial)

    def asks_midway(self, worker: int, serial: int) -> None:
        """A worker asks for fresh parameters, while it goes on with its steps."""
        flight = self.flight_of(worker, serial)
        if flight is None:
            return
        if self.server.version == flight.version:
            flight.ready = True
        else:
            flight.fresh = self.sends(_Kind.FRESH, flight, self.down_bytes, "down")

    def gets_fresh(self, worker: int, serial: int) -> None:
        """Fresh parameters have come; they are merged at the end of the local step that runs."""
        flight = self.flight_of(worker, serial)
        if flight is None:
            return
        flight.ready, flight.fresh = True, None
        if flight.phase != "compute":
            return
        done = ceil((self.now - flight.since_s) / (flight.compute_s or 1.0) * flight.steps - 1e-9)
        if done >= flight.steps:
            return
        first = flight.segment
        if done:
            first.steps, first.fetched = done, None
            self.stack.compute([first])
            assert first.end is not None
            here = first.end
            flight.losses, flight.first_gradient = first.losses, first.first_gradient
        else:
            here = first.start
        flight.segment = Segment(
            worker=worker,
            start=self.algorithm.midway(self.server, worker, here, flight.version),
            fetched=flight.fetched,
            batch=first.batch + done,
            steps=flight.steps - done,
            progress=first.progress + done,
            age=first.age + done,
            inner=first.inner,
        )

    def has_computed(self, worker: int, serial: int) -> None:
        """A worker uploads."""
        flight = self.flight_of(worker, serial)
        if flight is None:
            return
        if flight.fresh is not None:
            self.setting.transfers.cancel(flight.fresh, self.now)
            self.keys.pop(flight.fresh, None)
            flight.fresh = None
        flight.ready = True
        self.workers[worker].compute_s += flight.compute_s
        self.told.computed_s += flight.compute_s
        flight.phase, flight.since_s = "up", self.now
        self.told.uploads += 1
        flight.transfer = self.sends(_Kind.ARRIVED, flight, self.up_bytes, "up")

    def arrives(self, worker: int, serial: int) -> None:
        """An upload has arrived."""
        flight = self.flight_of(worker, serial)
        if flight is None:
            return
        segment = flight.segment
        if segment.moved is None:
            pending = [f for f in self.uncomputed.values() if f.ready]
            self.stack.compute([f.segment for f in pending])
            for f in pending:
                del self.uncomputed[f.serial]
        assert segment.moved is not None
        own = self.workers[worker]
        own.transfer_s += self.now - flight.since_s
        if self.rules.keeps_inner:
            own.inner, own.age = segment.inner, segment.age + segment.steps
        del self.flights[worker]
        self.waiting.add(worker)
        self.arrived_steps += flight.steps
        samples = self.setting.samples
        first = segment.first_gradient if flight.first_gradient is None else flight.first_gradient
        upload = Upload(
            worker=worker,
            round_number=flight.number,
            version=flight.version,
            staleness=self.server.version - flight.version,
            steps=flight.steps,
            fetched_s=flight.fetched_s,
            now_s=self.now,
            compute_s=flight.compute_s,
            fetched=flight.fetched,
            difference=self.decoded(own, flight, segment.moved),
            first_gradient=first,
            loss=(flight.losses + segment.losses) / flight.steps,
            lr=self.job.lr.at(flight.progress),
            samples=1.0 if samples is None else float(samples[worker]),
            nbytes=self.up_bytes,
            upload_s=self.now - flight.since_s,
        )
        if not isfinite(upload.loss):
            self.ended = "diverged"
            return
        before = self.server.version
        answer = self.algorithm.arrived(self.server, upload)
        self.told.arrived(worker, flight.number, upload.staleness, answer.merged, self.server.version - before)
        self.follows(answer, before)

    def decoded(self, own: LivingWorker, flight: Flight, difference: Reals) -> Reals:
        """What the server makes of an upload; what it leaves out stays with the worker where feedback is asked for."""
        compressor, share = self.rules.upload, self.rules.feedback
        if compressor is None or is_plain(compressor):
            return difference
        if share and own.kept is not None:
            difference = difference + own.kept * difference.dtype.type(share)
        who = np.array([flight.worker])
        sent = compressor.decoded(difference[None, :], self.task.shapes, self.job.draws, who, flight.number)
        if share:
            own.kept = np.asarray(difference - sent[0])
        return np.asarray(sent[0])

    # -- what follows ------------------------------------------------------------------------------------------------

    def follows(self, answer: Answer, before: int) -> None:
        """Carry out an answer; evaluate after a server step; stop where enough has arrived."""
        if answer.wake_s is not None:
            self.at(max(answer.wake_s, self.now), _Kind.WAKE)
        released = sorted(self.waiting) if answer.release == "all" else answer.release
        for worker in released:
            if worker in self.waiting:
                self.waiting.discard(worker)
                self.idle.add(worker)
        if answer.interrupt:
            for worker in sorted(self.flights):
                self.gives_up(self.flights[worker])
                self.idle.add(worker)
            self.missing.clear()
        if answer.release or answer.interrupt:
            self.wants_start(self.now + answer.after_s)
        done = self.arrived_steps >= self.job.steps * self.width
        if self.server.version != before and (done or self.arrived_steps >= self.next_point * self.width):
            self.evaluate()
        if done and not self.ended:
            if self.told.points[-1][1] != self.server.version:
                self.evaluate()
            self.ended = self.ended or "steps"
        if self.told.given_up > STARVED * (self.told.merged + self.told.dropped) + 1000:
            self.ended = self.ended or "starved"

    def gives_up(self, flight: Flight) -> None:
        """A round ends without a result; its worker's states stay as they were before it."""
        self.spends(flight)
        for key in (flight.transfer, flight.fresh):
            if key is not None:
                self.setting.transfers.cancel(key, self.now)
                self.keys.pop(key, None)
        del self.flights[flight.worker]
        self.uncomputed.pop(flight.serial, None)
        self.told.given_up += 1

    def is_lost(self, worker: int, serial: int) -> None:
        """The server learns that a round will not arrive: it timed out, or its worker has failed."""
        flight = self.flight_of(worker, serial)
        if flight is not None:
            self.gives_up(flight)
            self.idle.add(worker)
        elif self.missing.get(worker) == serial:
            del self.missing[worker]
        else:
            return
        before = self.server.version
        answer = self.algorithm.lost(self.server, worker, self.now)
        if self.rules.starts == "any time" or not self.busy:
            self.wants_start(self.now)
        self.follows(answer, before)

    def wakes(self, _worker: int, _serial: int) -> None:
        """A time that the algorithm asked for has come."""
        before = self.server.version
        self.follows(self.algorithm.woken(self.server, self.now), before)

    @property
    def busy(self) -> bool:
        """Whether any slot is taken."""
        return bool(self.flights or self.waiting or self.missing)

    # -- life and death ----------------------------------------------------------------------------------------------

    def joins(self, worker: int, _serial: int) -> None:
        """A worker is there, for the first time or after a repair; it has no state."""
        own = self.workers[worker]
        own.alive_since, own.outage = self.now, None
        self.idle.add(worker)
        if self.setting.outages is not None:
            own.outage = self.setting.outages.next(worker, own.failures)
            if own.outage is not None:
                self.at(self.now + own.outage.after_s, _Kind.FAIL, worker)
        if self.rules.starts == "any time" or not self.busy:
            self.wants_start(self.now)

    def fails(self, worker: int, _serial: int) -> None:
        """A worker dies, and what it held is gone."""
        own = self.workers[worker]
        assert own.outage is not None
        own.failures += 1
        own.alive_s += self.now - own.alive_since
        own.alive_since = inf
        own.inner, own.age, own.kept = None, 0, None
        self.idle.discard(worker)
        self.waiting.discard(worker)
        flight = self.flights.get(worker)
        if flight is not None:
            self.gives_up(flight)
            self.missing[worker] = flight.serial
            self.at(self.now + own.outage.noticed_s, _Kind.LOST, worker, flight.serial)
        self.at(self.now + own.outage.back_s, _Kind.JOIN, worker)

    # -- results ---------------------------------------------------------------------------------------------------

    def evaluate(self) -> None:
        """Add a point to the curve."""
        score = self.task.evaluate(self.algorithm.reported(self.server))
        loss, metric = float(score.loss[0]), float(score.metric[0])
        if not isfinite(loss):
            self.ended = "diverged"
            return
        steps = self.arrived_steps // self.width
        every = self.setting.evaluate_every
        self.next_point = (steps // every + 1) * every
        self.told.point(steps, self.server.version, self.now, loss, metric)
        if self.setting.stop_loss is not None and loss <= self.setting.stop_loss:
            self.ended = "target"

    def result(self) -> ArrivalCurve:
        """Accounts of rounds on their way are closed at the end."""
        for flight in self.flights.values():
            self.spends(flight)
        return self.told.curve(
            self.workers,
            duration_s=self.now,
            worker_steps=self.stack.worker_steps,
            server_cpu_s=float(getattr(self.algorithm, "server_cpu_s", 0.0)),
            ended=self.ended,
        )

    def spends(self, flight: Flight) -> None:
        """Book the seconds that a round has spent in its phase until now."""
        own = self.workers[flight.worker]
        spent = self.now - flight.since_s
        if flight.phase == "compute":
            own.compute_s += spent
            self.told.computed_s += spent
        else:
            own.transfer_s += spent
