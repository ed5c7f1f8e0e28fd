"""A server that steps whenever enough uploads have arrived: the frame of asynchronous algorithms. It registers none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.arrival import NOTHING, Answer, Rules, Server, Upload
from windtunnel.learning.outer.base import OuterOptimizer
from windtunnel.learning.participation.base import Participation
from windtunnel.learning.participation.everyone import Everyone
from windtunnel.learning.participation.sample import Sample
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True, kw_only=True)
class Buffered:
    """An `ArrivalAlgorithm`: every `buffer` uploads, D = Σ w·d / Σ of `over`, then the outer optimizer steps on D."""

    rules: Rules
    local_steps: int
    buffer: int
    outer: OuterOptimizer
    weight: Callable[[Upload], float]
    """w of an upload, from its staleness and samples."""
    normalised: bool = False
    """Whether D is divided by the sum of weights; otherwise by the number of uploads, so that late ones move less."""
    max_staleness: int | None = None
    """Uploads that are later are thrown away."""
    _sum: Reals | None = None
    _weights: float = 0.0
    _count: int = 0

    def start(self, initial: Reals) -> Server:
        """See `ArrivalAlgorithm.start`."""
        self._sum, self._weights, self._count = None, 0.0, 0
        return started(initial, self.outer)

    def assign(self, server: Server, worker: int, now_s: float) -> int:
        """The same local steps for all."""
        del server, worker, now_s
        return self.local_steps

    def arrived(self, server: Server, upload: Upload) -> Answer:
        """Into the buffer; a server step where it is full. The worker goes on at once."""
        if self.max_staleness is not None and upload.staleness > self.max_staleness:
            return Answer(merged=False, release=(upload.worker,))
        weight = self.weight(upload)
        weighted = upload.difference
        weighted *= weighted.dtype.type(weight)
        if self._sum is None:
            self._sum = weighted
        else:
            self._sum += weighted
        self._weights += weight
        self._count += 1
        if self._count >= self.buffer:
            total = self._weights if self.normalised else self._count
            step_server(server, self.outer, self._sum / self._sum.dtype.type(total))
            self._sum, self._weights, self._count = None, 0.0, 0
        return Answer(release=(upload.worker,))

    def lost(self, server: Server, worker: int, now_s: float) -> Answer:
        """Nobody waits for it."""
        del server, worker, now_s
        return NOTHING

    def woken(self, server: Server, now_s: float) -> Answer:
        """No timers."""
        del server, now_s
        return NOTHING

    def midway(self, server: Server, worker: int, params: Reals, version: int) -> Reals:
        """Goes on as it was."""
        del server, worker, version
        return params

    def reported(self, server: Server) -> Reals:
        """The server's parameters."""
        return server.anchor


def started(initial: Reals, outer: OuterOptimizer) -> Server:
    """A server at parameters of shape (params,), with fresh outer states."""
    anchor = initial[None, :].copy()
    return Server(anchor=anchor, outer={name: np.zeros_like(anchor) for name in outer.states})


def step_server(server: Server, outer: OuterOptimizer, difference: Reals) -> None:
    """One server step along a pseudo-gradient of shape (params,); rounds on their way keep the old anchor."""
    anchor = server.anchor.copy()
    outer.step(anchor, difference[None, :], server.outer, server.version)
    server.anchor = anchor
    server.version += 1


def polynomial(exponent: float) -> Callable[[Upload], float]:
    """W = (1 + s)^−exponent of an upload that is s server steps late."""
    return lambda upload: (1.0 + upload.staleness) ** -exponent


def chosen(active: int, over: float = 0.0) -> Participation:
    """A sample of `active` workers, or everyone for 0."""
    return Sample(active, over) if active else Everyone()


def upload_of(id: str, knobs: dict[str, Any], who: Participation) -> dict[str, Any]:
    """Fields `upload` and `feedback` of `Rules` from an algorithm's knobs.

    Raises:
        BadInput: a compressor that needs feedback goes without it, or clients that are sampled have it.
    """
    problems = parts.problems_of(id)
    compressor, feedback = parts.compressor_of(knobs, problems), float(knobs["feedback"])
    if compressor.needs_feedback and not feedback and not knobs["may_stall"]:
        rule = (
            f"compressor {compressor.id} never sends what it leaves out, and training stalls; allowed: above 0, up to 1"
        )
        problems.add("feedback", feedback, rule)
    if feedback and isinstance(who, Sample):
        rule = "a client that is sampled now and then would send errors of long ago; allowed: 0 with sampled clients"
        problems.add("feedback", feedback, rule)
    problems.raise_if_any()
    return {"upload": compressor, "feedback": feedback}


UPLOAD = {name: knob for name, knob in parts.wire_knobs().items() if name != "via"}
LOCAL_STEPS = Knob(10, 1, 1_000_000, "local steps of a round")
CONCURRENCY = Knob(0, 0, 100_000, "workers that are active at a time, drawn among all; 0: everyone")
TIMEOUT_S = Knob(None, 1e-9, 1e12, "seconds after which a round that has not arrived is given up; absent: never")
