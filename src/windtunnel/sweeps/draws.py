"""Paired draws: draw k has the same random numbers for every cell, so that differences between cells are paired."""

from __future__ import annotations

import hashlib
import math
from statistics import NormalDist

_NORMAL = NormalDist()
_QUANTILE = 1.2816
"""Normal deviate of the 90th percentile: a band of 80 % has this half-width in standard deviations."""


def drawn_factor(key: tuple[int, int], what: str, low: float, high: float) -> float:
    """A factor on a prediction, from its 80 % band.

    The logarithm of the factor is normal on either side, with the deviation that the band has on that side. The number
    is keyed by (seed, draw, what): cells of one draw have the same, so plans that are compared keep their order where
    their bands are alike. What plans do not share is not drawn: differences between them are told by `compare`.

    Args:
        key: Seed and number of the draw.
        what: Name of the figure.
        low: Lower end of the band over the prediction.
        high: Upper end of the band over the prediction.
    """
    z = normal(*key, what)
    side = math.log(high) if z > 0 else -math.log(low)
    return math.exp(z * side / _QUANTILE)


def normal(seed: int, draw: int, what: str) -> float:
    """A standard normal number of a key."""
    bits = hashlib.blake2b(f"{seed}/{draw}/{what}".encode(), digest_size=8).digest()
    uniform = (int.from_bytes(bits, "little") >> 11) + 0.5
    return _NORMAL.inv_cdf(uniform / 9007199254740992.0)
