"""DeToNATION (FlexDeMo): gradients are averaged inside a node, and only part of a decoupled momentum between nodes.

e ← βe + ηg; q: what is sent of e; e ← e − q; x ← x − η·sign(q of all nodes). `demo` sends the largest cosine
coefficients of chunks; `random` and `striding` send a share of the entries that all nodes agree on; `full` averages the
whole gradient, which is hybrid-sharded data parallelism.

Source: From et al. 2025 (arXiv 2502.06728); public code: schneiderkamplab/DeToNATION at be29e5c; DeMo: Peng,
Quesnelle and Kingma 2024 (arXiv 2411.19870).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.compressors.dct import Dct, forward, inverse
from windtunnel.learning.compressors.topk import largest
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message, WireFormat
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Shapes
from windtunnel.techniques.knobs import Knob

Replicator = Literal["demo", "random", "striding", "full"]


@dataclass(frozen=True, slots=True)
class Share:
    """A share of the entries that everyone agrees on without positions; a `WireFormat`."""

    fraction: float
    bits: int = 32

    def nbytes(self, shapes: Shapes) -> float:
        """The entries that are sent, of all tensors together."""
        return self.entries(sum(prod(shape) for shape in shapes)) * self.bits / 8.0

    def entries(self, size: int) -> int:
        """Entries of a vector that are sent."""
        return max(1, round(self.fraction * size))


@dataclass(frozen=True, slots=True)
class WholePositions:
    """What `Dct` sends, with each position in 32 bits; a `WireFormat`."""

    dct: Dct

    def nbytes(self, shapes: Shapes) -> float:
        """Values and positions of what is sent of each chunk."""
        return sum(k for (k,) in self.dct.kept_shapes(shapes)) * (self.dct.bits + 32) / 8.0


@dataclass(slots=True)
class Detonation(Composed):
    """Nodes of `node` workers each, which always hold the same parameters."""

    node: int = 1
    replicator: Replicator = "demo"
    decay: float = 0.999
    sign: bool = True
    lr_in_momentum: bool = True
    of_senders: bool = True
    dct: Dct = field(default_factory=Dct)
    packed: bool = False
    share: Share = field(default_factory=lambda: Share(1.0))

    @property
    def nodes(self) -> int:
        """Groups of workers that exchange gradients in full."""
        return self.job.workers // self.node

    def start(self, initial: Reals) -> LearnerState:
        """See `LockStepAlgorithm.start`."""
        state = Composed.start(self, initial)
        if self.replicator != "full":
            state.residual["momentum"] = np.zeros((self.nodes, len(initial)), initial.dtype)
        return state

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """What every worker steps on: the same for all."""
        inside = gradients.reshape(self.nodes, self.node, -1).mean(axis=1)
        if self.replicator == "full":
            update = inside.mean(axis=0)
        else:
            e = state.residual["momentum"]
            one = e.dtype.type
            e *= one(self.decay)
            e += inside * one(self.job.lr.at(step)) if self.lr_in_momentum else inside
            update = self._demo(e) if self.replicator == "demo" else self._shared(e, step)
        gradients[:] = np.sign(update) if self.sign else update

    def messages(self, step: int) -> tuple[Message, ...]:
        """A reduce-scatter inside each node, and what each shard of a node sends to those of the others."""
        out = []
        if self.node > 1:
            for first in range(0, self.job.workers, self.node):
                members = tuple(range(first, first + self.node))
                out.append(
                    Message(
                        kind="reduce_scatter",
                        wire=Cast(32),
                        after_step=step,
                        needed_by=step + 1,
                        during_backward=True,
                        participants=members,
                    )
                )
        if self.nodes > 1:
            demo: WireFormat = self.dct if self.packed else WholePositions(self.dct)
            wire = demo if self.replicator == "demo" else self.share
            kind: Literal["all_gather", "all_reduce"] = "all_gather" if self.replicator == "demo" else "all_reduce"
            for shard in range(self.node):
                members = tuple(range(shard, self.job.workers, self.node)) if self.node > 1 else ()
                out.append(
                    Message(
                        kind=kind,
                        wire=wire,
                        copies=1.0 / self.node,
                        after_step=step,
                        needed_by=step + 1,
                        participants=members,
                    )
                )
        return tuple(out)

    def _demo(self, e: Reals) -> Reals:
        """Take the largest coefficients out of each node's momentum, and put all nodes' together."""
        update, at = np.empty(e.shape[1], e.dtype), 0
        for shape in self.job.shapes:
            here = slice(at, at + prod(shape))
            chunks = self.dct.chunks(shape)
            found = forward(e[:, here], chunks)
            where = largest(found, min(self.dct.k, chunks.size))
            sent, senders = np.zeros_like(found), np.zeros_like(found)
            np.put_along_axis(sent, where, np.take_along_axis(found, where, axis=2), axis=2)
            np.put_along_axis(senders, where, 1.0, axis=2)
            e[:, here] -= inverse(sent, chunks)
            total = sent.sum(axis=0, keepdims=True)
            if self.of_senders:
                total /= np.maximum(senders.sum(axis=0, keepdims=True), 1.0)
            else:
                total /= e.dtype.type(self.nodes)
            update[here] = inverse(total, chunks)[0]
            at += prod(shape)
        return update

    def _shared(self, e: Reals, step: int) -> Reals:
        """Average entries that all nodes agree on, and take them out of their momenta."""
        which = self._entries_of(step, e.shape[1])
        update = np.zeros(e.shape[1], e.dtype)
        update[which] = e[:, which].mean(axis=0)
        e[:, which] = 0.0
        return update

    def _entries_of(self, step: int, size: int) -> Ints:
        count = self.share.entries(size)
        if self.replicator == "random":
            return np.sort(self.job.draws.order("replicated entries", step, size)[:count])
        stride = -(-size // count)
        return np.arange(step % stride, size, stride)


def build(job: Job, knobs: dict[str, Any]) -> Detonation:
    """Nodes, a replicator, and what it sends."""
    problems = parts.problems_of("detonation")
    node, chunk = knobs["node"], knobs["chunk"]
    if job.workers % node:
        problems.add("node", node, f"must divide the {job.workers} workers")
    if knobs["replicator"] == "demo" and knobs["k"] > chunk * chunk:
        problems.add("k", knobs["k"], f"a chunk has {chunk * chunk} coefficients; allowed: 1 to {chunk * chunk}")
    problems.raise_if_any()
    fraction = 1.0 if knobs["replicator"] == "full" else knobs["fraction"]
    return Detonation(
        job,
        node=node,
        replicator=knobs["replicator"],
        decay=knobs["decay"],
        sign=knobs["sign"] and knobs["replicator"] != "full",
        lr_in_momentum=knobs["lr_in_momentum"],
        of_senders=knobs["mean"] == "senders",
        dct=Dct(k=knobs["k"], chunk=chunk, bits=knobs["bits"]),
        packed=knobs["positions"] == "packed",
        share=Share(fraction, knobs["bits"]),
    )


ALGORITHMS.add(
    "detonation",
    AlgorithmKind(
        id="detonation",
        summary="full averages inside nodes; between them, the largest cosine coefficients of momentum",
        build=build,
        knobs={
            "node": Knob(1, 1, 100_000, "workers of a node, which average gradients in full"),
            "replicator": Knob("demo", choices=("demo", "random", "striding", "full"), doc="what nodes exchange"),
            "decay": Knob(0.999, 0.0, 0.999999, "β: decay of the momentum"),
            "chunk": Knob(64, 1, 4096, "side of a chunk of coefficients"),
            "k": Knob(32, 1, 16_777_216, "coefficients that are sent of a chunk"),
            "fraction": Knob(0.1, 1e-6, 1.0, "share of entries that `random` and `striding` send"),
            "sign": Knob(True, doc="whether a worker steps on signs; `full` never does"),
            "lr_in_momentum": Knob(True, doc="e ← βe + ηg as the public code; false: e ← βe + g"),
            "mean": Knob("senders", choices=("senders", "all"), doc="a coefficient's mean is over those that sent it"),
            "bits": Knob(32, choices=(16, 32, 64), doc="bits of a value on its way"),
            "positions": Knob("int32", choices=("int32", "packed"), doc="32 bits each, or as few as a chunk needs"),
        },
        family="low-comm",
        source="From et al. 2025 (arXiv 2502.06728); DeMo: arXiv 2411.19870",
        deviates="the public code (be29e5c) averages a coefficient over those that sent it: `mean`; with `sign` off "
        "its learning rate counts twice: `lr_in_momentum`; positions travel as 32-bit integers: `positions`",
    ),
)
