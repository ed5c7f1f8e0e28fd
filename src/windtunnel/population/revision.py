"""A further attempt after feedback (the output of tests, a critique): what it is worth next to a fresh one.

Given that the first attempt at a problem was wrong, the second is right with probability g(p) = 1 − (1 − p)^κ: feedback
makes an attempt worth κ independent ones with a checker. κ is fitted per task; it depends on the assumed spread of p,
which is why `CONCENTRATION` belongs to it. Rows: aider's two attempts (docs/internals/population.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats

CONCENTRATION = 0.9
"""Sum a + b under which the worths below were fitted."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """Worth of feedback on a task."""

    worth: float
    """κ: independent attempts that one attempt after feedback is worth."""
    log_sd: float
    """Spread of ln κ between models."""
    rows: int
    """Models and settings that it was fitted on."""
    models: int = 0
    """Families of models among them, as another model would be of another one; 0: rows are runs of one family."""

    def worths(self, count: int) -> Floats:
        """κ of another model, `count` equally likely ones: a Student law in ln κ, as few models set it."""
        from scipy.special import stdtrit

        known = self.models or self.rows
        wide = self.log_sd * math.sqrt(1.0 + 1.0 / known)
        quantiles: Floats = stdtrit(max(known - 1, 1), (np.arange(count) + 0.5) / count)
        worths: Floats = self.worth * np.exp(wide * quantiles)
        return worths


FITTED = {"polyglot-225": Feedback(23.3, 1.06, 44, 17), "edit-133": Feedback(1.08, 0.82, 44, 18)}
"""Second attempts after the output of failing tests, by aider's benchmark: ln κ ~ N(ln worth, log_sd) over models, at
its greatest likelihood for binomial counts of second attempts (`windtunnel_lab.fit.reasoning`)."""
RUNS = {
    "polyglot-225 qwen3": Feedback(13.0, 0.48, 9),
    "edit-133 qwen2.5 quantisations": Feedback(1.12, 0.26, 10),
    "edit-133 two-model": Feedback(2.3, 0.30, 16, 3),
}
"""The same of certain runs of a benchmark. Runs of one model differ less than models do; pairs of models, of which one
plans and one edits, make more of test output."""
UNKNOWN = Feedback(5.0, 1.8, 123)
"""Of a task without rows: between both benchmarks, with the spread between and within them."""


def feedback_for(task: str) -> tuple[Feedback, bool]:
    """The worth of feedback on a task, and whether it was fitted on it: the longest name that the task begins with."""
    fitted = FITTED | RUNS
    known = max((name for name in fitted if task.startswith(name)), key=len, default=None)
    return (fitted[known], True) if known else (UNKNOWN, False)


def gain(p: Floats, worth: float) -> Floats:
    """Probability g(p) that an attempt after feedback is right, given that those before were wrong (Q,)."""
    with np.errstate(divide="ignore"):
        share: Floats = -np.expm1(worth * np.log1p(-np.asarray(p, np.float64)))
    return share


def with_revisions(p: Floats, rounds: int, worth: float) -> Floats:
    """Probability that one of 1 + `rounds` attempts is right, all but the first after feedback, with a perfect checker.

    Args:
        p: success probability of a fresh attempt, shape (Q,).
        rounds: attempts after feedback, 0 or more.
        worth: κ of each.

    Returns:
        1 − (1 − p)^(1 + κ·rounds), shape (Q,).
    """
    return gain(p, 1.0 + worth * rounds)
