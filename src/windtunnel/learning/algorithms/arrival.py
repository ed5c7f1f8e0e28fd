"""What an algorithm whose order of events depends on the clock is to its driver.

A worker that is chosen fetches the server's parameters, steps on them locally, and uploads how far it has moved. The
driver moves the clock; the algorithm says how many local steps a worker gets, what an arrival changes, and who may
fetch next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Literal, Protocol

from windtunnel.arrays import Reals
from windtunnel.learning.compressors.base import Compressor
from windtunnel.learning.messages import Message, Plain, WireFormat
from windtunnel.learning.participation.base import Participation
from windtunnel.learning.participation.everyone import Everyone


@dataclass(slots=True)
class Server:
    """What the server holds.

    `anchor` is replaced by a new array at each server step and never changed in place, since rounds on their way have
    started from it: `step` of an outer optimizer is given a copy.
    """

    anchor: Reals
    """Shape (1, params)."""
    version: int = 0
    """Server steps made."""
    outer: dict[str, Reals] = field(default_factory=dict)
    """States of the outer optimizer by name, shape (1, params)."""


@dataclass(slots=True, kw_only=True)
class Upload:
    """A worker's round at the moment when its result has arrived."""

    worker: int
    round_number: int
    """Of this worker, counted from 0."""
    version: int
    """Server steps made when it fetched."""
    staleness: int
    """Server steps made since then."""
    steps: int
    """Local steps made."""
    fetched_s: float
    """When its download began."""
    now_s: float
    compute_s: float
    """Seconds of its local steps."""
    fetched: Reals
    """Parameters that it fetched, shape (params,)."""
    difference: Reals
    """Fetched minus where it ended, as the server decodes it, shape (params,); the algorithm may overwrite it."""
    first_gradient: Reals | None
    """Gradient of its first local step where `Rules.first_gradients` asks for it, shape (params,)."""
    loss: float
    """Mean loss of its batches."""
    lr: float
    """Learning rate of its first local step."""
    samples: float
    """Samples that the worker has; 1 where nobody knows."""
    nbytes: float
    """Of the upload on the target."""
    upload_s: float = 0.0
    """From the end of its local steps to its arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What follows from an arrival, a loss or a timer."""

    merged: bool = True
    """Whether the upload counts, now or when its buffer is full; False: it is thrown away."""
    release: tuple[int, ...] | Literal["all"] = ()
    """Workers that may be chosen again, of those whose uploads have arrived."""
    interrupt: bool = False
    """Rounds still on their way are given up, and their workers may be chosen again."""
    after_s: float = 0.0
    """Seconds of aggregation before those who are released can fetch."""
    wake_s: float | None = None
    """When the driver is to call `woken`."""


NOTHING = Answer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What does not change during a run."""

    who: Participation = field(default_factory=Everyone)
    starts: Literal["any time", "together"] = "any time"
    """Whether workers that become idle fill free slots at once, or only when others are released (rounds)."""
    upload: Compressor | None = None
    """How differences travel; None: as they are, 32 bits each."""
    feedback: float = 0.0
    """Share of what a worker's upload leaves out that it adds to its next one."""
    download: WireFormat = field(default_factory=Plain)
    keeps_inner: bool = False
    """Whether inner states stay with a worker from round to round; otherwise each round begins with fresh ones."""
    timeout_s: float = inf
    """After a fetch; a round that has not arrived by then is given up."""
    proximal: float = 0.0
    """ρ: gradients are those of loss + ρ/2·|x − fetched|²."""
    first_gradients: bool = False
    midway: float | None = None
    """Share of a round's seconds after which a worker asks for fresh parameters, where there are any."""

    @property
    def messages(self) -> tuple[Message, Message]:
        """Down- and upload of one round."""
        down = Message(kind="from_server", wire=self.download, after_step=0, needed_by=1)
        up = Message(kind="to_server", wire=self.upload or Plain(), after_step=0, needed_by=1)
        return down, up


class ArrivalAlgorithm(Protocol):
    """An algorithm that completions of the clock drive."""

    @property
    def rules(self) -> Rules:
        """What does not change during a run."""

    def start(self, initial: Reals) -> Server:
        """The server before anybody fetched, from parameters of shape (params,)."""

    def assign(self, server: Server, worker: int, now_s: float) -> int:
        """Local steps of the round that a worker begins now. Workers of one instant come in ascending order."""

    def arrived(self, server: Server, upload: Upload) -> Answer:
        """An upload has arrived; changes the server."""

    def lost(self, server: Server, worker: int, now_s: float) -> Answer:
        """A round will never arrive: its worker failed, or it timed out."""

    def woken(self, server: Server, now_s: float) -> Answer:
        """A time that an answer asked for has come."""

    def midway(self, server: Server, worker: int, params: Reals, version: int) -> Reals:
        """What a worker continues with whose fresh parameters came midway.

        Args:
            server: Its anchor is what the worker has got.
            worker: Its number.
            params: Where it is, shape (params,).
            version: Server steps made when it fetched first.
        """

    def reported(self, server: Server) -> Reals:
        """Parameters that are evaluated, shape (1, params)."""
