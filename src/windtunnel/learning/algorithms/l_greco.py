"""L-GreCo: every layer gets its own level of compression, so that bytes are least at the error of a uniform level.

Errors of all levels are measured on real gradients, a dynamic programme chooses (`_levels.least_bytes`), and the choice
is made anew every `period` steps. The uniform level is one of the choices, so bytes never exceed its bytes.

Source: Markov et al. 2024 (arXiv 2210.17357), algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms._levels import least_bytes
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.base import Compressor
from windtunnel.learning.compressors.low_rank import LowRank
from windtunnel.learning.compressors.quantised import Quantised
from windtunnel.learning.compressors.topk import TopK
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Shapes
from windtunnel.techniques.knobs import Knob

LEVELS: dict[str, tuple[Compressor, ...]] = {
    "topk": tuple(TopK(fraction) for fraction in (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.1)),
    "quantised": tuple(Quantised(bits, scale="max", block=0) for bits in range(2, 9)),
    "low_rank": tuple(LowRank(rank) for rank in (1, 2, 4, 8, 16)),
}
"""Levels by compressor, from few bytes to many."""
DEFAULT = {"topk": 3, "quantised": 2, "low_rank": 2}
"""The uniform level: 1 %, 4 bits, rank 4."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """The uniform level's bytes times the share that the choice needs of them on the proxy."""

    level: Compressor
    share: float = 1.0

    def nbytes(self, shapes: Shapes) -> float:
        """See `WireFormat.nbytes`."""
        return self.share * sum(self.level.nbytes((shape,)) for shape in shapes)


@dataclass(slots=True)
class LGreCo(Composed):
    """See the module.

    Bytes follow from what is learned: before the first choice, and on a clock that does not learn, messages state those
    of the uniform level, which the choice never exceeds.
    """

    base: str = "topk"
    uniform: int = 3
    period: int = 100
    chosen: Ints | None = None
    """Level of each tensor."""
    share: float = 1.0
    """Bytes of the choice over those of the uniform level."""
    tensors: list[slice] = field(default_factory=list)

    def start(self, initial: Reals) -> LearnerState:
        """Nothing is chosen yet."""
        ends = np.cumsum([0, *map(prod, self.job.shapes)])
        self.tensors = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self.chosen, self.share = None, 1.0
        state = Composed.start(self, initial)
        state.residual["gradients"] = np.zeros_like(state.params)
        return state

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """Each tensor through its level, with what was left out before where the compressor needs that."""
        levels = LEVELS[self.base]
        kept = state.residual["gradients"]
        values = gradients + kept if levels[0].needs_feedback else gradients.copy()
        if step % self.period == 0:
            self.choose(values, step)
        assert self.chosen is not None
        for at, level in enumerate(self.chosen):
            gradients[:, self.tensors[at]] = self._decoded(levels[level], values, at, step)
        if levels[0].needs_feedback:
            kept[:] = values - gradients
        gradients[:] = gradients.mean(axis=0)

    def choose(self, values: Reals, step: int) -> None:
        """Choose levels on gradients of all workers, shape (workers, params)."""
        nbytes, errors = self.measured(values, step)
        rows = np.arange(len(nbytes))
        self.chosen = least_bytes(nbytes, errors, float(errors[:, self.uniform].sum()))
        self.share = float(nbytes[rows, self.chosen].sum() / nbytes[:, self.uniform].sum())

    def measured(self, values: Reals, step: int) -> tuple[Floats, Floats]:
        """Bytes, and squared errors summed over workers, shape (tensors, levels) each."""
        levels, shapes = LEVELS[self.base], self.job.shapes
        nbytes = np.array([[level.nbytes((shape,)) for level in levels] for shape in shapes])
        errors = np.empty_like(nbytes)
        for at in range(len(shapes)):
            for number, level in enumerate(levels):
                lost = self._decoded(level, values, at, step) - values[:, self.tensors[at]]
                errors[at, number] = np.square(lost, dtype=np.float64).sum()
        return nbytes, errors

    def messages(self, step: int) -> tuple[Message, ...]:
        """One exchange of everything."""
        if self.job.workers == 1:
            return ()
        wire = Uniform(LEVELS[self.base][self.uniform], self.share)
        return (Message(kind="all_gather", wire=wire, after_step=step, needed_by=step + 1, during_backward=True),)

    def _decoded(self, level: Compressor, values: Reals, at: int, step: int) -> Reals:
        """What receivers get of one tensor; each tensor has draws of its own."""
        job = self.job
        workers = job.everyone + at * job.workers
        return level.decoded(values[:, self.tensors[at]], (job.shapes[at],), job.draws, workers, step)


def build(job: Job, knobs: dict[str, Any]) -> LGreCo:
    """The uniform level is that of common use."""
    base = knobs["base"]
    return LGreCo(job, base=base, uniform=DEFAULT[base], period=knobs["period"])


ALGORITHMS.add(
    "l-greco",
    AlgorithmKind(
        id="l-greco",
        summary="each layer gets its own level of compression: least bytes at the error of a uniform level",
        build=build,
        knobs={
            "base": Knob("topk", choices=tuple(LEVELS), doc="compressor whose levels are chosen"),
            "period": Knob(100, 1, 1_000_000, "steps between choices"),
        },
        family="compression",
        source="Markov et al. 2024 (arXiv 2210.17357), algorithm 1",
    ),
)
