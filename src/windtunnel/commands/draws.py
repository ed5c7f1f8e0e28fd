"""Paired draws: draw k has the same random numbers for every cell, so that differences between cells are paired."""

from __future__ import annotations

import hashlib
from statistics import NormalDist

_NORMAL = NormalDist()


def normal(seed: int, draw: int, what: str) -> float:
    """A standard normal number of a key."""
    return _NORMAL.inv_cdf(uniform(seed, draw, what))


def uniform(seed: int, draw: int, what: str) -> float:
    """A number between 0 and 1 of a key."""
    bits = hashlib.blake2b(f"{seed}/{draw}/{what}".encode(), digest_size=8).digest()
    return ((int.from_bytes(bits, "little") >> 11) + 0.5) / 9007199254740992.0
