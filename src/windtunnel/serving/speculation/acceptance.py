"""Acceptance that differs between requests and between steps: how many tokens a sequence makes, one step at a time.

Requests differ: some answers repeat what a draft has seen, others do not. The mean time per token over requests is then
longer than at the mean acceptance, since 1/E is convex in acceptance (a test).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.serving.speculation.base import Drafting, expected_tokens

MILLION = 1_000_000


class Numbered(Protocol):
    """A request of the loop, by its number."""

    @property
    def index(self) -> int:
        """Number of the request."""
        ...


class Pace:
    """Tokens by request and step; they depend on the seed, the request and its steps alone.

    Args:
        drafting: method, acceptance, and what varies.
        requests: how many there are.
        seed: of the traffic.
    """

    def __init__(self, drafting: Drafting, requests: int, seed: int) -> None:
        self.k, self.drawn = drafting.tokens, drafting.variation == "step"
        first, spread = drafting.acceptance[0], drafting.acceptance_std
        generator = np.random.default_rng([seed, 7])
        own = _beta(generator, first, spread, requests)
        # Further positions move with the first: each request raises all of them to one power.
        power = np.log(own) / math.log(first) if 0.0 < first < 1.0 else np.ones(requests)
        self.rates = np.minimum(np.asarray(drafting.acceptance)[None, :] ** power[:, None], 1.0)
        self.mean = [round(expected_tokens(tuple(row)) * MILLION) for row in self.rates]
        self.fraction = [0] * requests
        self.chance = np.random.default_rng([seed, 8])

    def tokens(self, q: Numbered) -> int:
        """Return how many tokens a request makes in the step that ends."""
        i = q.index % len(self.mean)  # the decode part of a request is numbered behind all requests
        if self.drawn:
            kept = self.chance.random(self.k) < self.rates[i]
            return 1 + (self.k if kept.all() else int(np.argmin(kept)))
        whole = self.fraction[i] + self.mean[i]
        self.fraction[i] = whole % MILLION
        return whole // MILLION


def pace_of(drafting: Drafting | None, requests: int, seed: int) -> Pace | None:
    """Make the pace of a run; None where every sequence makes the mean number of tokens."""
    if drafting is None or drafting.variation == "none":
        return None
    return Pace(drafting, requests, seed)


def _beta(generator: np.random.Generator, mean: float, std: float, count: int) -> Floats:
    """Draws from a beta distribution; a spread that its mean does not allow is cut."""
    if not 0.0 < mean < 1.0 or std == 0.0:
        return np.full(count, mean)
    size = max(mean * (1.0 - mean) / std**2 - 1.0, 0.5)
    return np.clip(generator.beta(mean * size, (1.0 - mean) * size, count), 1e-6, 1.0 - 1e-9)
