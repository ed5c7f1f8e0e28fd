"""Secure Berrut coded computing: gradients of data blocks from workers that only ever see combinations of them.

K blocks of samples are encoded into one share a worker; each computes the gradient on its share as on any other data;
the gradients on the blocks are decoded from those that return, after corrupted ones were found.

Source: Jahani-Nezhad and Maddah-Ali 2020 (arXiv 2009.08327); Borah and Harshan 2025 (arXiv 2507.01330) for corruption.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from windtunnel.arrays import Floats, Ints, Reals
from windtunnel.errors import BadInput, Problem
from windtunnel.learning.aggregators.berrut import mean_of_blocks
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.learning.tasks.base import Task
from windtunnel.runs.step_waits.berrut import encode
from windtunnel.techniques.knobs import Knob


@runtime_checkable
class HasSamples(Protocol):
    """A task whose inputs and answers can be combined: answers are numbers, not classes."""

    def batch_of(self, workers: Ints, steps: Ints) -> tuple[Reals, Reals]:
        """Inputs and wanted answers of each row's batch."""

    def gradients_on(self, params: Reals, x: Reals, wanted: Reals, out: Reals) -> Floats:
        """Gradients on given samples."""


@dataclass(slots=True)
class SecureBerrut(Composed):
    """See the module."""

    blocks: int = 2
    late: int = 0
    wrong: int = 0
    strength: float = 10.0

    def own_gradients(self, task: Task, state: LearnerState, step: int, out: Reals) -> Floats:
        """The mean over blocks, decoded; see `TakesOwnGradients`."""
        if not isinstance(task, HasSamples):
            rule = "needs a task whose samples can be combined, and no attack but its own; allowed: teacher-student"
            raise BadInput(Problem("learning.algorithms.sbacc", rule))
        n, k = self.job.workers, self.blocks
        owners = np.arange(k)
        x, wanted = task.batch_of(owners, np.full(k, step))
        x_shares, wanted_shares = (encode(part.astype(np.float64), n).astype(part.dtype) for part in (x, wanted))
        losses = task.gradients_on(state.params, x_shares, wanted_shares, out)
        returned = np.sort(self.job.draws.order("late", step, n)[: n - self.late])
        answers = out[returned].astype(np.float64)
        if self.wrong:
            self._corrupt(answers, step)
        out[:] = mean_of_blocks(answers, k, self.wrong, returned, n)
        return losses

    def _corrupt(self, answers: Floats, step: int) -> None:
        """Some of the returned answers, drawn anew in every step, get noise `strength` times their length."""
        liars = self.job.draws.order("corrupted", step, len(answers))[: self.wrong]
        noise = self.job.draws.normals("corruption", liars, step, answers.shape[1])
        lengths = np.linalg.norm(answers[liars], axis=1, keepdims=True)
        answers[liars] += self.strength * lengths / np.sqrt(answers.shape[1]) * noise

    def messages(self, step: int) -> tuple[Message, ...]:
        """One gradient up from every worker, and the parameters down."""
        if self.job.workers == 1:
            return ()
        return (
            Message(kind="to_server", wire=Cast(32), after_step=step, needed_by=step + 1, late=self.late),
            Message(kind="from_server", wire=Cast(32), after_step=step, needed_by=step + 1),
        )


def build(job: Job, knobs: dict[str, Any]) -> SecureBerrut:
    """Refuses more faults than the code tolerates."""
    problems, n = parts.problems_of("sbacc"), job.workers
    blocks, late, wrong = knobs["blocks"], knobs["late"], knobs["wrong"]
    if blocks > n:
        problems.add("blocks", blocks, f"there is one share a worker; allowed: 1 to {n}")
    elif late >= n:
        problems.add("late", late, f"has to leave a worker that answers; allowed: 0 to {n - 1}")
    elif wrong and n - late < blocks + 2 * wrong:
        most = max(0, n - late - blocks) // 2
        problems.add("wrong", wrong, f"{n - late} answers with {blocks} blocks tell at most {most} wrong ones")
    problems.raise_if_any()
    return SecureBerrut(job, blocks=blocks, late=late, wrong=wrong, strength=knobs["strength"])


ALGORITHMS.add(
    "sbacc",
    AlgorithmKind(
        id="sbacc",
        summary="gradients of data blocks decoded from workers that see combinations of them, some late or corrupted",
        build=build,
        knobs={
            "blocks": Knob(2, 1, 100_000, "K: blocks of samples, each a worker's batch"),
            "late": Knob(0, 0, 100_000, "workers that are not waited for"),
            "wrong": Knob(0, 0, 100_000, "answers that are corrupted in every step"),
            "strength": Knob(10.0, 0.0, 1e9, "norm of the corruption over that of the answer"),
        },
        family="fault-straggler",
        source="Jahani-Nezhad and Maddah-Ali 2020 (arXiv 2009.08327); Borah and Harshan 2025 (arXiv 2507.01330)",
        deviates="wrong answers are found by Berlekamp and Welch's equations, which have the DCT code's bound K + 2e",
    ),
)
