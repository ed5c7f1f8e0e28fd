"""Sequential gradient coding (SR-SGC): a smaller code, and a second chance `burst` rounds later for what was late.

Rounds carry the gradients of several models in turn, so that one model's gradient may wait `burst` rounds. Where more
than the code's s workers are late in a round, those whose answers are missing repeat them then; bursts are over by
that time. Load is (s + 1)/n with s = ⌈burst·late/(window − 1 + burst)⌉, against (late + 1)/n of gradient coding.

Source: Krishnan et al. 2023 (arXiv 2211.13802), section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.arrays import Ints, Reals
from windtunnel.learning.aggregators.gradient_codes import cyclic
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms._coded import CodedGradients
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.job import Job
from windtunnel.learning.state import LearnerState
from windtunnel.runs.step_waits.straggler_patterns import Late, bursts
from windtunnel.techniques.knobs import Knob


@dataclass(slots=True)
class SequentialCoding(CodedGradients):
    """See the module. `repeated` says of each step whether its gradient needed the second chance."""

    burst: int = 1
    window: int = 2
    most: int = 1
    """λ: different workers that are late in a window."""
    chance: float = 0.1
    """That a worker becomes late in a round, before the pattern is kept."""
    pattern: list[Late] = field(default_factory=list)
    repeated: list[bool] = field(default_factory=list)

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `CodedGradients.before_step`."""
        self.repeated.append(int(self.late_in(step).sum()) > self.late)
        CodedGradients.before_step(self, state, gradients, step)

    def answered(self, step: int) -> Ints:
        """Workers whose answer is there when it is needed: on time, or repeated `burst` rounds later."""
        on_time = ~self.late_in(step)
        n = self.job.workers
        if int(on_time.sum()) >= n - self.late:
            return np.flatnonzero(on_time)
        return np.flatnonzero(on_time | ~self.late_in(step + self.burst))

    def late_in(self, step: int) -> Late:
        """Late workers of a round, shape (workers,): drawn, less those that would break the pattern."""
        bears = bursts(self.burst, self.window, self.most)
        while len(self.pattern) <= step:
            at = len(self.pattern)
            drawn = self.job.draws.uniforms("becomes late", self.job.everyone, at, 1)[:, 0] < self.chance
            late = np.zeros(self.job.workers, np.bool_)
            for worker in np.flatnonzero(drawn):
                late[worker] = True
                if not bears(self.pattern, late):
                    late[worker] = False
            self.pattern.append(late)
        return self.pattern[step]


def build(job: Job, knobs: dict[str, Any]) -> SequentialCoding:
    """Refuses patterns that the scheme is not for."""
    problems, n = parts.problems_of("sequential-gradient-coding"), job.workers
    burst, window, most = knobs["burst"], knobs["window"], knobs["late"]
    if burst >= window:
        problems.add("burst", burst, f"has to be over within a window; allowed: 1 to {window - 1} (window − 1)")
    elif (window - 1) % burst:
        problems.add("window", window, f"SR-SGC needs window − 1 to be a multiple of burst = {burst}")
    if most > n:
        problems.add("late", most, f"there are {n} workers; allowed: 0 to {n}")
    problems.raise_if_any()
    few = min(n - 1, -(-burst * most // (window - 1 + burst)))
    return SequentialCoding(
        job,
        code=cyclic(n, few, job.draws),
        late=few,
        burst=burst,
        window=window,
        most=most,
        chance=knobs["chance"],
    )


ALGORITHMS.add(
    "sequential-gradient-coding",
    AlgorithmKind(
        id="sequential-gradient-coding",
        summary="a smaller gradient code, and a second chance some rounds later for what was late",
        build=build,
        knobs={
            "burst": Knob(1, 1, 1000, "B: rounds in a row that a worker is late at most"),
            "window": Knob(2, 2, 1000, "W: rounds in which at most `late` workers are late"),
            "late": Knob(2, 0, 100_000, "λ: workers that are late in a window"),
            "chance": Knob(0.1, 0.0, 1.0, "that a worker is late in a round, as far as the pattern allows"),
        },
        family="fault-straggler",
        source="Krishnan et al. 2023 (arXiv 2211.13802), section 3.2",
    ),
)
