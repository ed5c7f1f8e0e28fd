"""Counter-based random numbers: a draw depends on its key alone, so order and number of workers change nothing.

A number is SplitMix64's mix of (seed, purpose, worker, step, index). Any subset of workers, in any order, at any step,
draws what it would draw among all others.

Source: Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators, figure 15.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints

_U64 = npt.NDArray[np.uint64]
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def _mixed(z: _U64) -> _U64:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@lru_cache(maxsize=256)
def _key(seed: int, purpose: str) -> _U64:
    """64 bits for a seed and a purpose, shape (1,)."""
    with np.errstate(over="ignore"):
        key = np.asarray(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64) * _GAMMA, np.uint64)
        key += np.uint64(zlib.crc32(purpose.encode()))
        return _mixed(key)


@dataclass(frozen=True, slots=True)
class Draws:
    """Random numbers of one run.

    Example: `Draws(seed=1).integers("batch", workers, steps, 32, below=1000)` has shape (workers, 32).
    """

    seed: int

    def _bits(self, purpose: str, workers: npt.ArrayLike, steps: npt.ArrayLike, count: int) -> _U64:
        """64 random bits for each of `count` indices of each row, shape (rows, count)."""
        who, when = np.broadcast_arrays(
            np.atleast_1d(np.asarray(workers, np.uint64)), np.atleast_1d(np.asarray(steps, np.uint64))
        )
        with np.errstate(over="ignore"):
            by_worker = np.asarray(_key(self.seed, purpose) + who * _GAMMA, np.uint64)
            row = _mixed(np.asarray(_mixed(by_worker) + when * _GAMMA, np.uint64))
            index: _U64 = np.arange(1, count + 1, dtype=np.uint64) * _GAMMA
            return _mixed(row[:, None] + index[None, :])

    def uniforms(self, purpose: str, workers: npt.ArrayLike, steps: npt.ArrayLike, count: int) -> Floats:
        """Numbers in [0, 1), shape (rows, count), float64.

        Args:
            purpose: What they are for: draws of different purposes are independent.
            workers: Worker of each row, shape (rows,) or one number; numbers of 0 and more.
            steps: Step of each row, shape (rows,) or one number; numbers of 0 and more.
            count: Numbers of a row.
        """
        return np.asarray((self._bits(purpose, workers, steps, count) >> np.uint64(11)) * (1.0 / 9007199254740992.0))

    def integers(
        self, purpose: str, workers: npt.ArrayLike, steps: npt.ArrayLike, count: int, below: npt.ArrayLike
    ) -> Ints:
        """Integers from 0 to below `below` (one number, or one of each row), shape (rows, count)."""
        limit = np.asarray(below, np.float64)
        drawn = self.uniforms(purpose, workers, steps, count) * (limit[:, None] if limit.ndim else limit)
        return np.asarray(drawn, np.int64)

    def normals(self, purpose: str, workers: npt.ArrayLike, steps: npt.ArrayLike, count: int) -> Floats:
        """Standard normal numbers, shape (rows, count), float64 (Box and Muller 1958)."""
        half = (count + 1) // 2
        u = self.uniforms(purpose, workers, steps, 2 * half)
        radius = np.sqrt(-2.0 * np.log1p(-u[:, :half]))
        angle = 2.0 * np.pi * u[:, half:]
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :count]

    def order(self, purpose: str, step: int, count: int) -> Ints:
        """A permutation of 0 … count − 1, shape (count,), the same for all workers."""
        return np.argsort(self._bits(purpose, 0, step, count)[0], kind="stable")
