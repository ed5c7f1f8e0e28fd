"""What a set of serving coefficients without rows of its own may expect, from sets that share its engine or devices.

A coefficient is its prior times a factor. The logarithms of the factors of two sets are correlated by what the sets
share: a release line's scheduler and kernels, a generation's memory and matrix units, and what all priors have wrong
alike. A set with many measured models tells its factors itself; they are what thin and empty sets start from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

Block = tuple[str, str]
"""(release line, device generation)."""


@dataclass(frozen=True, slots=True)
class Share:
    """Shares of a prior's variance; the rest is each set's own."""

    everywhere: float
    line: float
    generation: float


HOST = Share(0.2, 0.6, 0.0)
"""Costs of an engine's host code and of its launches: they go with the release line, not with the device."""
DEVICE = Share(0.4, 0.0, 0.4)
"""Fractions of data-sheet rates that kernels and links reach: they go with the generation, not with the engine."""
OF_THE_HOST = frozenset(
    {"host_s", "sequence_s", "stream_s", "request_s", "layer_s", "prompt_layer_s", "launch_layer_s", "quantise_layer_s"}
)


@dataclass(frozen=True, slots=True)
class Known:
    """A log factor that rows have told, and its standard error."""

    log: float
    error: float


def share_of(name: str) -> Share:
    """How a coefficient is shared."""
    return HOST if name in OF_THE_HOST else DEVICE


def expected(name: str, sigma: float, block: Block, known: Mapping[Block, Known]) -> Known:
    """Log factor of a set and its standard deviation, from those of other sets.

    Args:
        name: the coefficient.
        sigma: standard deviation of the prior's logarithm.
        block: the set.
        known: sets whose rows have told theirs.
    """
    if not known:
        return Known(0.0, sigma)
    share, blocks = share_of(name), sorted(known)
    own = 1.0 - share.everywhere - share.line - share.generation
    errors = np.array([known[b].error for b in blocks])
    among = np.array([[_common(share, a, b) for b in blocks] for a in blocks]) + own * np.eye(len(blocks))
    toward = sigma**2 * np.array([_common(share, block, b) for b in blocks])
    pull = np.linalg.solve(sigma**2 * among + np.diag(errors**2), toward)
    log = float(pull @ np.array([known[b].log for b in blocks]))
    return Known(log, math.sqrt(max(sigma**2 - float(pull @ toward), 1e-4 * sigma**2)))


def _common(share: Share, a: Block, b: Block) -> float:
    return share.everywhere + share.line * (a[0] == b[0]) + share.generation * (a[1] == b[1])
