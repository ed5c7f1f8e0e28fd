"""Tokens of attempts: right ones may be shorter than wrong ones, and a cap cuts both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.graph.length_laws import LAWS
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.population import AnswerLengths, LengthLaw

ASSUMED = Lengths(distribution="lognormal", mean=1000.0, cv=0.6)
"""Where neither `programs.output_tokens` nor `population.lengths` is stated."""
_LAW_DRAWS = 20_000


@dataclass(frozen=True, slots=True)
class AttemptLengths:
    """Laws of the tokens of right and of wrong attempts."""

    right: int | Lengths
    wrong: int | Lengths

    def draw(self, right: Mask, random: Generator, share: float = 1.0) -> Ints:
        """(B,) whole tokens, from 1."""
        count = len(right)
        both = [_drawn(own, random, count) for own in (self.right, self.wrong)]
        tokens = np.where(right, both[0], both[1]) * share
        out: Ints = np.maximum(np.rint(tokens), 1).astype(np.int64)
        return out

    def finished(self, tokens: float) -> tuple[float, float]:
        """Shares of right and of wrong attempts that end within so many tokens, of 20,000 fixed draws each."""
        drawn = [_drawn(own, np.random.default_rng(7), _LAW_DRAWS) for own in (self.right, self.wrong)]
        return float((drawn[0] <= tokens).mean()), float((drawn[1] <= tokens).mean())


def attempt_lengths(stated: int | Lengths | None, measured: AnswerLengths | None, cap: int | None) -> AttemptLengths:
    """What a scenario says of attempts: `programs.output_tokens`, else the population's lengths, else assumed."""
    if stated is not None:
        return AttemptLengths(stated, stated)
    if measured is None:
        return AttemptLengths(ASSUMED, ASSUMED)
    return AttemptLengths(_law(measured.correct, cap), _law(measured.wrong, cap))


def _law(law: LengthLaw, cap: int | None) -> Lengths:
    return Lengths(distribution="lognormal", mean=law.mean, cv=float(np.sqrt(np.expm1(law.sigma**2))), max=cap)


def _drawn(spec: int | Lengths, random: Generator, count: int) -> Floats:
    if isinstance(spec, int):
        return np.full(count, float(spec))
    values = np.rint(LAWS[spec.distribution](spec, random, count))
    return np.asarray(np.clip(values, spec.min or 1, spec.max or np.inf), np.float64)
