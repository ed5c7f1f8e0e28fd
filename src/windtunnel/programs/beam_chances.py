"""Chance that a beam search ends right, by recursion over how many of its trajectories still are.

Of W trajectories r are right before a step; each stays right with q = p^(1/D). Of the r' that did, j are among the K
with the highest scores, which is an integral over the K-th highest score; each of the K goes on as W/K. After the last
step the highest score of all W is answered.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats

_EDGE, _STEP, _POINTS = 9.0, 0.05, 81


def beam_success(p: Floats, width: int, keep: int, steps: int, separation: float) -> Floats:
    """(Q,) chance that the answer is right; interpolated between 81 success probabilities.

    Args:
        p: (Q,) chance of a trajectory alone.
        width: W; a multiple of `keep`.
        keep: K.
        steps: D.
        separation: d of scores of whole answers that are right and that are not; of steps it is d/√D.
    """
    at, values = _table(width, keep, steps, float(separation))
    return np.interp(p, at, values)


def step_separation(separation: float, steps: int) -> float:
    """Separation of the scores of steps, d/√D: the D scores of a trajectory tell as much as one of the whole answer."""
    return float(separation / np.sqrt(steps))


@lru_cache(maxsize=128)
def _table(width: int, keep: int, steps: int, separation: float) -> tuple[Floats, Floats]:
    from scipy.special import expit
    from scipy.stats import binom

    at = np.concatenate([[0.0], expit(np.linspace(-12.0, 12.0, _POINTS)), [1.0]])
    counts = np.arange(width + 1)
    kept = among_best(width, keep, step_separation(separation, steps))
    wins = among_best(width, 1, separation)[:, 1]
    copies = width // keep
    values = []
    for p in at:
        stays = binom.pmf(counts[None, :], counts[:, None], p ** (1.0 / steps))  # (right before, right after)
        law = np.zeros(width + 1)
        law[width] = 1.0
        for step in range(steps):
            law = law @ stays
            if step < steps - 1:
                best = law @ kept
                law = np.zeros(width + 1)
                law[np.arange(keep + 1) * copies] = best
        values.append(float(law @ wins))
    return at, np.array(values)


@lru_cache(maxsize=128)
def among_best(width: int, keep: int, separation: float) -> Floats:
    """(W + 1, K + 1) chance that j of the K highest scores are of right ones, where r of W are right."""
    from scipy.special import gammaln, ndtr

    if keep >= width:
        return np.eye(width + 1)
    x = np.arange(-_EDGE - separation, _EDGE + separation, _STEP)
    tiny = 1e-300
    above = [np.log(np.maximum(ndtr(-(x - m)), tiny)) for m in (separation / 2, -separation / 2)]
    under = [np.log(np.maximum(ndtr(x - m), tiny)) for m in (separation / 2, -separation / 2)]
    density = [np.exp(-0.5 * (x - m) ** 2) * _STEP / np.sqrt(2 * np.pi) for m in (separation / 2, -separation / 2)]

    def choose(n: int, k: int) -> float:
        return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))

    out = np.zeros((width + 1, keep + 1))
    for r in range(width + 1):
        w = width - r
        for j in range(max(0, keep - w), min(keep, r) + 1):
            i = keep - j
            both = (
                (j * above[0] + (r - j) * under[0]) + (i * above[1] + (w - i) * under[1]) + choose(r, j) + choose(w, i)
            )
            # the K-th highest is one of the j right or of the i wrong ones: its density over its chance to be above
            edge = j * density[0] / np.exp(above[0]) + i * density[1] / np.exp(above[1])
            out[r, j] = float(np.exp(both) @ edge)
    out /= out.sum(1, keepdims=True)
    return out
