"""What attempts and judges of a graph return, drawn from the population of its problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.population.majority import USUAL_WRONG
from windtunnel.programs.votes import labels
from windtunnel.programs.workload import Workload

ATTEMPTS, VERDICTS, ANSWERS, SCORES, TIES = 51, 52, 53, 54, 55
"""Streams of random numbers."""


@dataclass(frozen=True, slots=True)
class PopulationOutcomes:
    """Draws for `serving.traffic.program_outcomes`, each call the next ones of its stream."""

    work: Workload

    def attempts(self, programs: Ints, worth: float) -> Mask:
        """(T,) right with 1 − (1 − p)^worth, independently given the problem."""
        p = self.work.p[programs]
        chance = p if worth == 1.0 else 1.0 - (1.0 - p) ** worth
        found: Mask = self.work.random(ATTEMPTS).random(len(programs)) < chance
        return found

    def verdicts(self, right: Mask, rates: tuple[float, float]) -> Mask:
        """(T,) accepted, by the rates for right and for wrong attempts."""
        found: Mask = self.work.random(VERDICTS).random(right.shape) < np.where(right, *rates)
        return found

    def labels(self, right: Mask) -> Ints:
        """(T, n) answers; wrong ones by `population.wrong_answers`, else as on public rows."""
        known = self.work.quality.wrong_answers or (USUAL_WRONG,)
        return labels(right, known, self.work.random(ANSWERS))

    def scores(self, right: Mask) -> Floats:
        """(T, n) normal scores, the verifier's separation apart."""
        half = self.work.quality.separation / 2
        return self.work.random(SCORES).standard_normal(right.shape) + np.where(right, half, -half)

    def random(self) -> Generator:
        """For ties and choices at random."""
        return self.work.random(TIES)
