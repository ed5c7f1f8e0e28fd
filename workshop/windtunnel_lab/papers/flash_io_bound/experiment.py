"""Exponents of counted words, their constant, and where the better blocking changes."""

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt
from typing import Any

from windtunnel.cost.attention_io import blocked_words, bound_words, flash_words
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve

EXPERIMENT = Experiment(__name__, "flash-io-bound")
fixed = EXPERIMENT.fixed


def exponent(words: Callable[[float], float], low: float, high: float) -> float:
    """Slope of the logarithm of words between two arguments."""
    return log(words(high) / words(low)) / log(high / low)


def ratios() -> list[float]:
    """FlashAttention's words over the leading term of the bound, cache by cache."""
    n, d = int(fixed("n")), int(fixed("d"))
    return [flash_words(n, d, k * d * d) / bound_words(n, d, k * d * d) for k in fixed("over")]


def switch() -> float:
    """Cache over d² at which blocked products stop being better, by bisection."""
    n, d = fixed("n"), fixed("d")
    low, high = 1.0 / max(fixed("under")), float(max(fixed("over")))
    for _ in range(60):
        middle = sqrt(low * high)
        better = blocked_words(n, d, middle * d * d) < flash_words(n, d, middle * d * d)
        low, high = (middle, high) if better else (low, middle)
    return float(low)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    n, d = fixed("n"), fixed("d")
    over, under = fixed("over"), fixed("under")
    cache = 16 * d * d
    return {
        "exponent/n": lambda _: exponent(lambda x: flash_words(int(x), d, cache), n / 4, n),
        "exponent/d": lambda _: exponent(lambda x: flash_words(n, int(x), cache), d / 2, d),
        "exponent/m": lambda _: exponent(lambda x: flash_words(n, d, x), over[0] * d * d, over[-1] * d * d),
        "exponent/m-small": lambda _: exponent(lambda x: blocked_words(n, d, x), d * d / under[-1], d * d / under[0]),
        "optimal": lambda _: max(ratios()) / min(ratios()),
        "switch": lambda _: switch(),
        "below": lambda _: flash_words(n, d, d * d / 16) / blocked_words(n, d, d * d / 16),
    }


def plot(_: list[ClaimResult]) -> Any:
    """Words of both blockings over the cache, in those of the bound's leading term."""
    n, d = int(fixed("n")), int(fixed("d"))
    over_d = [1.0 / x for x in reversed(fixed("under"))] + [1.0, *fixed("over")]
    series = {
        name: curve(over_d, lambda k, w=words: w(n, d, k * d * d) / bound_words(n, d, k * d * d))
        for name, words in (("FlashAttention", flash_words), ("blocked products", blocked_words))
    }
    return beside({f"N {n:,}, d {d}": series}, "cache over d²", "words over N² d² / M", log_x=True)
