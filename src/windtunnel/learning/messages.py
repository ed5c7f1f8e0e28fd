"""Messages of an algorithm: what is sent, to whom, after which step, and by when it has to have arrived.

A message says nothing of seconds, and states bytes as a law over tensor shapes: the same message has the proxy's bytes
on the proxy's shapes and the target's bytes on those of the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal, Protocol

from windtunnel.learning.tasks.base import Shapes

Kind = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "pairs", "neighbours", "to_server", "from_server"
]
"""all_reduce, reduce_scatter, all_gather, broadcast: collectives of the participants. pairs: each exchanges with one
partner, drawn anew. neighbours: each with its neighbours in a graph. to_server, from_server: up- and downloads."""


class WireFormat(Protocol):
    """How values travel."""

    def nbytes(self, shapes: Shapes) -> float:
        """Bytes of one worker's encoding of tensors with these shapes."""


@dataclass(frozen=True, slots=True)
class Plain:
    """Values as they are, in `bits` each."""

    bits: float = 32.0

    def nbytes(self, shapes: Shapes) -> float:
        """Values times their bits."""
        return sum(prod(shape) for shape in shapes) * self.bits / 8.0


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of the tensors: every `of`-th, from `index`, so that fragments have layers of all depths (*strided*)."""

    index: int = 0
    of: int = 1

    def shapes(self, shapes: Shapes) -> Shapes:
        """The tensors of the fragment."""
        return shapes[self.index :: self.of]


WHOLE = Fragment()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One exchange among workers."""

    kind: Kind
    wire: WireFormat
    copies: float = 1.0
    """How many tensors of the model's size it carries: 3 where parameters and both moments of Adam travel."""
    fragment: Fragment = WHOLE
    after_step: int
    """Local step, counted from 0, at whose end it is sent."""
    needed_by: int
    """Local step that cannot start before it has arrived; `after_step` + 1: nothing hides it."""
    during_backward: bool = False
    """Whether it leaves tensor by tensor as the backward of `after_step` makes gradients, as data parallelism does."""
    during_forward: bool = False
    """Whether the forward of `needed_by` can start on the tensors that have arrived."""
    degree: float = 1.0
    """neighbours: partners of each worker. Collectives do not read it."""
    participants: tuple[int, ...] = ()
    """Workers; empty: all."""
    partners: tuple[tuple[int, ...], ...] = ()
    """pairs, neighbours: to whom each worker sends, one entry a worker; empty: the clock draws pairs, and takes the
    nearest on a ring for neighbours."""
    late: int = 0
    """to_server: how many of those that take part are not waited for; the slowest give up and go on with the others."""
    in_turn: bool = False
    """Whether it can only leave when the message before it of the same step has arrived (the second factor of a low
    rank). A download from a server always waits for the upload before it."""

    def nbytes(self, shapes: Shapes) -> float:
        """Payload of one worker's encoding, in bytes, where the model has tensors of these shapes."""
        return self.copies * self.wire.nbytes(self.fragment.shapes(shapes))
