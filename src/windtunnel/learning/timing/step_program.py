"""Local steps and messages of lock-step workers as tasks of the engine.

A *lane* is a worker, or all workers where one stands for all. It has a compute stream and its link's two directions:
messages of one direction leave one after the other, latencies pass next to them. A step is cut only where a message
leaves or is waited for, and into layers only where a message leaves or arrives layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf, isfinite

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.learning.messages import Message
from windtunnel.learning.timing.exchanges import COLLECTIVES, DOWN, UP, Exchange, Exchanges
from windtunnel.learning.timing.partners import partners_of
from windtunnel.learning.timing.payloads import Payloads
from windtunnel.learning.timing.target import Target
from windtunnel.program.builder import ProgramBuilder

ROUNDING = 1e-12
"""Share of a step below which what layers leave over is rounding, not an update."""


@dataclass(frozen=True, slots=True)
class StepProgram:
    """Where the steps of a program are among its tasks."""

    builder: ProgramBuilder
    begins: dict[int, Ints]
    """Step at whose start there is a cut → task of each lane that begins it, shape (lanes,)."""
    ends: dict[int, Ints]
    """The same steps but the last → last computing task before the next cut, shape (lanes,)."""
    rows: dict[int, int]
    """The same steps → first task that was added for them; of the last, the number of tasks."""
    computed_s: Floats
    """Seconds that each lane computes, shape (lanes,)."""


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Tasks whose ends are arrivals of one message."""

    tasks: Ints
    """Shape (parts, lanes), or (parts, 1) where one stands for all lanes."""
    lanes: Ints
    """Lanes that wait for it, shape (lanes,)."""
    layers: Ints | None
    """Layer of each part, where a forward may start on what has arrived."""


@dataclass(slots=True)
class _Due:
    """What a step waits for."""

    arrivals: list[_Arrival] = field(default_factory=list)
    update: bool = False
    """Whether the update of the step before waits with it: these were its gradients."""


@dataclass(frozen=True, slots=True)
class _Made:
    """Where a stretch of steps made what it sends."""

    end: Ints
    """Last task of each lane, shape (lanes,)."""
    layers: Ints
    """End of each layer's backward, shape (layers, lanes); `end` where the backward was not cut."""


@dataclass(kw_only=True)
class StepBuilder:
    """Builds the program of the first steps of an algorithm."""

    target: Target
    workers: int
    lanes: int
    """1, or as many as workers."""
    messages: Callable[[int], Sequence[Message]]
    factors: Callable[[int], Floats]
    """Round → seconds of each lane's step over the typical one's, shape (lanes,)."""
    exchanges: Exchanges | None
    """None: messages take no time."""
    payloads: Payloads
    seed: int = 1

    def __post_init__(self) -> None:
        """Open the streams of all lanes."""
        b = self._b = ProgramBuilder()
        lanes, layers = range(self.lanes), self.target.layers
        self._all = np.arange(self.lanes)
        self._compute = np.array([b.stream(f"compute {i}") for i in lanes])
        self._directions = {name: np.array([b.stream(f"{name} {i}") for i in lanes]) for name in (UP, DOWN)}
        self._forward = np.array([layer.forward_share for layer in layers])
        self._backward = np.array([layer.backward_share for layer in layers])
        update = 1.0 - float(self._forward.sum() + self._backward.sum())
        self._update_share = update if update > ROUNDING else 0.0
        shared = inf if self.exchanges is None else self.exchanges.link.shared_bytes_per_s
        self._shared = {name: b.rate(f"shared {name}", shared) for name in (UP, DOWN) if isfinite(shared)}

    def build(self, steps: int, cuts: Sequence[int] = ()) -> StepProgram:
        """The program of steps 0 … steps − 1, cut at the start of the steps `cuts` in any case."""
        b, n = self._b, self.lanes
        sends = {s: found for s in range(steps) if (found := self._moving(s))}
        needs = {max(m.needed_by, s + 1) for s, found in sends.items() for m in found}
        at = sorted({0, steps} | {c for c in {*cuts, *needs, *(s + 1 for s in sends)} if 0 < c < steps})
        clients = _clients(sends)
        due: dict[int, _Due] = {}
        begins: dict[int, Ints] = {}
        ends: dict[int, Ints] = {}
        rows: dict[int, int] = {}
        computed = np.zeros(n)
        rounds = 0
        for first, end in pairwise(at):
            rows[first] = len(b)
            seconds = self.target.step_s * self.factors(rounds)
            sent: Sequence[Message] = sends.get(end - 1, [])
            if n > 1:
                seconds = self._only(seconds, next((who for at, who in clients if at >= end - 1), ()))
                seconds, sent = self._without_late(seconds, sent)
            computed += seconds * (end - first)
            begins[first], made = self._stretch(seconds, end - first, due.pop(first, _Due()), sent)
            ends[first] = made.end
            before: _Arrival | None = None
            for message in sent:
                before = self._send(message, made, before, due)
            rounds += bool(sent)
        rows[steps] = len(b)
        last = due.pop(steps, _Due())
        if last.update and self._update_share > 0.0:
            self._waiting(self._run(seconds * self._update_share), last.arrivals)
        begins[steps] = self._run(np.zeros(n))
        self._waiting(begins[steps], last.arrivals)
        return StepProgram(b, begins, ends, rows, computed)

    def _only(self, seconds: Floats, clients: tuple[int, ...]) -> Floats:
        """Seconds of a step of those that are clients of a round; the others do nothing. No clients: everybody."""
        return seconds if not clients else np.where(np.isin(self._all, clients), seconds, 0.0)

    def _without_late(self, seconds: Floats, sent: Sequence[Message]) -> tuple[Floats, Sequence[Message]]:
        """Seconds of a step where the slowest are not waited for, and messages without them.

        All begin together, since the server's answer goes to all; so who is late is known from their seconds.
        """
        late = max((m.late for m in sent), default=0)
        if not late:
            return seconds, sent
        order = np.argsort(seconds, kind="stable")
        waited_for = order[: len(order) - late]
        told = tuple(np.sort(waited_for).tolist())
        return np.minimum(seconds, seconds[waited_for[-1]]), [
            replace(m, participants=told) if m.late else m for m in sent
        ]

    def _moving(self, step: int) -> list[Message]:
        if self.exchanges is None:
            return []
        return [m for m in self.messages(step) if self.payloads.whole(m) > 0.0]

    # -- computing

    def _run(self, seconds: Floats) -> Ints:
        """A task on each lane; rows of shape (lanes,)."""
        return self._all + self._b.add(seconds, stream=self._compute, tag="compute")

    def _waiting(self, tasks: Ints, arrivals: Sequence[_Arrival]) -> None:
        """Make one task of each lane, shape (lanes,), wait for all of these."""
        for a in arrivals:
            self._b.add_dependencies(tasks[a.lanes][None, :], a.tasks)

    def _stretch(self, seconds: Floats, count: int, due: _Due, sent: Sequence[Message]) -> tuple[Ints, _Made]:
        """Steps of one stretch: the first may wait, the last may send. Returns what begins them and what they made."""
        by_layer = [a for a in due.arrivals if a.layers is not None]
        whole = [a for a in due.arrivals if a.layers is None]
        leaving = [m for m in sent if m.during_backward]
        own_update_waits = any(m.needed_by <= m.after_step + 1 for m in leaving)
        left = count * seconds - (self._update_share * seconds if own_update_waits else 0.0)
        if due.update and self._update_share:
            self._waiting(self._run(seconds * self._update_share), whole)
            whole = []
        begin: Ints | None = None
        if by_layer:
            rows = self._layers(self._forward, seconds)
            for a in by_layer:
                assert a.layers is not None
                self._b.add_dependencies(rows[a.layers[:, None], a.lanes[None, :]], a.tasks)
            begin = rows[0]
            self._waiting(begin, whole)
            whole = []
            left = left - float(self._forward.sum()) * seconds
        if not leaving:
            last = self._run(np.maximum(left, 0.0))
            begin = last if begin is None else begin
            self._waiting(begin, whole)
            return begin, _Made(last, np.broadcast_to(last, (len(self._forward), self.lanes)))
        after = 0.0 if own_update_waits else self._update_share
        left = left - (float(self._backward.sum()) + after) * seconds
        last = self._run(np.maximum(left, 0.0))
        begin = last if begin is None else begin
        self._waiting(begin, whole)
        rows = self._layers(self._backward[::-1], seconds)
        last = self._run(seconds * after) if after else rows[-1]
        return begin, _Made(last, rows[::-1])

    def _layers(self, shares: Floats, seconds: Floats) -> Ints:
        """A task of each layer and lane, in this order; rows of shape (layers, lanes)."""
        count = len(shares)
        first = self._b.add(
            (shares[:, None] * seconds[None, :]).ravel(), stream=np.tile(self._compute, count), tag="compute"
        )
        return np.asarray(first + np.arange(count * self.lanes).reshape(count, self.lanes))

    # -- messages

    def _send(self, message: Message, made: _Made, before: _Arrival | None, due: dict[int, _Due]) -> _Arrival:
        """Add a message's tasks, and what waits for them. Returns its arrival."""
        assert self.exchanges is not None
        of_layers = self.payloads.by_layer(message)
        exchange = self.exchanges.of(message, self.workers, float(of_layers.sum()))
        layers: Ints | None = None
        if message.during_backward or message.during_forward:
            layers = np.flatnonzero(of_layers > 0.0)
            layers = layers[::-1] if message.during_backward else layers
            nbytes = of_layers[layers]
        else:
            nbytes = np.array([of_layers.sum()])
        source = (
            made.layers[layers] if message.during_backward else np.broadcast_to(made.end, (len(nbytes), self.lanes))
        )
        turn = before if message.in_turn or message.kind == "from_server" else None
        if self.lanes == 1 or message.kind in COLLECTIVES:
            arrival = self._together(message, exchange, nbytes, source, turn)
            arrivals = [arrival]
        else:
            arrivals = self._apart(message, exchange, nbytes, source, turn)
            arrival = arrivals[0]
        waiting = due.setdefault(max(message.needed_by, message.after_step + 1), _Due())
        in_layers = layers if message.during_forward else None
        waiting.arrivals += [_Arrival(a.tasks, a.lanes, in_layers) for a in arrivals]
        waiting.update |= message.during_backward and message.needed_by <= message.after_step + 1
        return arrival

    def _together(
        self, message: Message, exchange: Exchange, nbytes: Floats, source: Ints, turn: _Arrival | None
    ) -> _Arrival:
        """One transfer for all lanes: a collective, or one lane that stands for all."""
        b, parts = self._b, len(nbytes)
        who = np.array(message.participants) if message.participants and self.lanes > 1 else self._all
        tasks = b.add(exchange.s_per_byte * nbytes, tag="message") + np.arange(parts)
        for direction in exchange.directions:
            b.add_streams(np.repeat(tasks, len(who)), np.tile(self._directions[direction][who], parts))
        b.add_dependencies(tasks[:, None], source[:, who])
        self._after(tasks[:, None], turn)
        for direction in exchange.directions:
            if self._shared:
                b.add_rates(tasks, self._shared[direction], exchange.way_out_per_byte * nbytes)
        return _Arrival(self._late(tasks, exchange.latency_s)[:, None], self._all, None)

    def _apart(
        self, message: Message, exchange: Exchange, nbytes: Floats, source: Ints, turn: _Arrival | None
    ) -> list[_Arrival]:
        """A transfer of each lane, to its partners or to and from a server."""
        assert self.exchanges is not None
        who = np.array(message.participants) if message.participants else self._all
        each, share = exchange.own_s_per_byte * nbytes, exchange.way_out_per_byte / len(who) * nbytes
        if message.kind in ("to_server", "from_server"):
            tasks = self._transfers(exchange.directions, who, who, each, share)
            if message.kind == "to_server":
                self._b.add_dependencies(tasks, source[:, who])
            self._after(tasks, turn)
            arrived = self._late(tasks, exchange.latency_s)
            if message.kind == "from_server":
                return [_Arrival(arrived, who, None)]
            server = self._b.add(np.zeros(len(nbytes)), tag="server") + np.arange(len(nbytes))
            self._b.add_dependencies(server[:, None], arrived)
            return [_Arrival(server[:, None], who, None)]
        out, lists = [], partners_of(message, who, self.seed)
        for senders, receivers in lists:
            tasks = self._transfers(exchange.directions, senders, receivers, each / len(lists), share / len(lists))
            self._b.add_dependencies(tasks, source[:, senders])
            self._after(tasks, turn)
            out.append(_Arrival(self._late(tasks, self.exchanges.pair_latencies(senders, receivers)), receivers, None))
        return out

    def _transfers(
        self, directions: Sequence[str], senders: Ints, receivers: Ints, seconds: Floats, shared_bytes: Floats
    ) -> Ints:
        """Transfers of parts that take `seconds` alone, shape (parts,); rows of shape (parts, senders)."""
        b, parts, count = self._b, len(seconds), len(senders)
        tasks = b.add(np.repeat(seconds, count), tag="message") + np.arange(parts * count).reshape(parts, count)
        for direction in directions:
            lanes = senders if direction == UP else receivers
            b.add_streams(tasks, self._directions[direction][lanes][None, :])
            if self._shared:
                b.add_rates(tasks, self._shared[direction], shared_bytes[:, None])
        return np.asarray(tasks)

    def _after(self, tasks: Ints, turn: _Arrival | None) -> None:
        """Make the parts of a message wait for those of the message before it; for all of them where parts differ."""
        if turn is None:
            return
        (parts, lanes), (before, others) = tasks.shape, turn.tasks.shape
        if parts == before and 1 in (lanes, others):
            self._b.add_dependencies(tasks, turn.tasks)
        else:
            self._b.add_dependencies(tasks.ravel()[:, None], turn.tasks.ravel()[None, :])

    def _late(self, tasks: Ints, latency: float | Floats) -> Ints:
        """Tasks that end when the last byte has arrived, shaped like `tasks`."""
        seconds = np.broadcast_to(np.asarray(latency, np.float64), tasks.shape)
        if not np.any(seconds > 0.0):
            return tasks
        first = self._b.add(seconds.ravel(), tag="latency")
        late = first + np.arange(tasks.size).reshape(tasks.shape)
        self._b.add_dependencies(late, tasks)
        return np.asarray(late)


def _clients(sends: dict[int, list[Message]]) -> list[tuple[int, tuple[int, ...]]]:
    """(step, clients) of rounds that end with an upload of some workers, ascending."""
    return [
        (step, m.participants)
        for step, found in sorted(sends.items())
        for m in found
        if m.kind == "to_server" and m.participants
    ]
