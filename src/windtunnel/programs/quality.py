"""What decides whether answers are right next to the success of one attempt: selectors, verifiers, votes, lengths."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.programs.attempt_lengths import AttemptLengths
from windtunnel.specs.population import AnswerLengths

ASSUMED_SEPARATION = 0.55
"""Middle of what reward models reach on public rows, 0.3 to 0.8 (docs/internals/population.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What a scenario states of its verifier and of its model's answers."""

    separation: float = ASSUMED_SEPARATION
    """Standard deviations between mean scores of right and of wrong answers."""
    separation_stated: bool = False
    true_accept: float | None = None
    """Share of right answers that the verifier accepts; None: it gives scores and not verdicts."""
    false_accept: float | None = None
    wrong_answers: tuple[tuple[float, ...], ...] = ()
    """Shares of the most frequent wrong answers, by kind of problem; empty: not known."""
    lengths: AnswerLengths | None = None
    max_tokens: int | None = None
    """Cap under which the population was drawn."""
    points: Floats = field(default_factory=lambda: np.full(1, 0.5), compare=False)
    """Equally weighted success probabilities of the population: what a strategy that plans by difficulty knows."""
    attempts: AttemptLengths | None = field(default=None, compare=False)
    """Laws of the tokens of attempts, as programs draw them."""
