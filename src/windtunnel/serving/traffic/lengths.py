"""How long prompts and answers are: draws from `Lengths`, cut to min and max, whole tokens from 1."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Int32s
from windtunnel.graph.length_laws import LAWS
from windtunnel.serving.traffic.arrivals import stream
from windtunnel.specs.lengths import Lengths

INPUT, OUTPUT, TURNS, THINK, RANKS = 3, 4, 5, 6, 7
"""Streams of random numbers next to a seed."""


def draw(spec: int | Lengths, count: int, seed: int, which: int) -> Int32s:
    """`count` lengths of at least one token.

    Args:
        spec: a number for all of them, or a distribution.
        count: how many.
        seed: of the whole traffic.
        which: stream of random numbers (INPUT, OUTPUT, TURNS).
    """
    if isinstance(spec, int):
        return np.full(count, spec, np.int32)
    values = np.rint(LAWS[spec.distribution](spec, stream(seed, which), count))
    top = min(spec.max or np.iinfo(np.int32).max, np.iinfo(np.int32).max)
    return values.clip(spec.min or 1, top).astype(np.int32)


def mean_of(spec: int | Lengths, seed: int, which: int, count: int = 100_000) -> float:
    """Mean length after rounding and cutting, from a sample where no closed form holds."""
    if isinstance(spec, int):
        return float(spec)
    return float(draw(spec, 1 if spec.distribution == "fixed" else count, seed, which).mean())


def pair(inputs: Int32s, outputs: Int32s, correlation: float, seed: int) -> tuple[Int32s, Int32s]:
    """The same lengths, paired so that prompts and answers have a rank correlation (Gaussian copula).

    Both are put in the order of correlated normal variables, whose correlation 2·sin(π/6·ρ) has rank correlation ρ.
    Each set of lengths stays exactly what it was. Lengths that repeat often lower what can be reached.

    Source: Iman and Conover, A distribution-free approach to inducing rank correlation among input variables (1982).
    """
    if correlation == 0 or len(inputs) < 2:
        return inputs, outputs
    rng = stream(seed, RANKS)
    linear = 2 * np.sin(np.pi / 6 * correlation)
    first = rng.standard_normal(len(inputs))
    second = linear * first + np.sqrt(1 - linear**2) * rng.standard_normal(len(inputs))
    return _by_rank(inputs, first), _by_rank(outputs, second)


def _by_rank(lengths: Int32s, of: Floats) -> Int32s:
    placed = np.empty_like(lengths)
    placed[np.argsort(of, kind="stable")] = np.sort(lengths)
    return placed
