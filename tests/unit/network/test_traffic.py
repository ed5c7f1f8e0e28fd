"""Bytes and hops of collectives, counted by hand: also for three ranks and for numbers that are no power of two."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.network.collectives import get
from windtunnel.network.groups import GroupPlacement

SIZE = 960.0
"""Bytes of the tensor; every share below is a whole number."""


def place(domains: int, each: int) -> GroupPlacement:
    """A group of `domains` · `each` ranks on a switched network."""
    values = {"size": domains * each, "ranks_per_domain": each, "num_domains": domains}
    zeros = dict.fromkeys(("groups_per_domain", "stride", "torus_axes", "torus_hops"), 0)
    return GroupPlacement(**{name: np.array(float(value)) for name, value in (zeros | values).items()})


def counted(algorithm: str, op: str, domains: int, each: int) -> tuple[float, ...]:
    """Bytes that a rank sends inside and outside its domain, and the hops of both."""
    found = get(algorithm).traffic(op, np.array(SIZE), place(domains, each))
    return tuple(float(v) for v in (found.up_bytes, found.out_bytes, found.up_hops, found.out_hops))


@pytest.mark.parametrize(
    ("algorithm", "op", "domains", "each", "expected"),
    [
        # a ring of n passes S/n on, n − 1 times, twice for an all-reduce; 1/m of it leaves a domain of m
        ("ring", "all_reduce", 1, 2, (960, 0, 2, 0)),
        ("ring", "all_reduce", 1, 3, (1280, 0, 4, 0)),
        ("ring", "all_reduce", 1, 6, (1600, 0, 10, 0)),
        ("ring", "all_reduce", 1, 8, (1680, 0, 14, 0)),
        ("ring", "reduce_scatter", 1, 3, (640, 0, 2, 0)),
        ("ring", "all_gather", 1, 6, (800, 0, 5, 0)),
        ("ring", "all_reduce", 3, 2, (800, 800, 6, 4)),
        ("ring", "all_gather", 2, 8, (787.5, 112.5, 14, 1)),
        ("ring", "all_reduce", 3, 1, (0, 1280, 0, 4)),
        ("ring", "broadcast", 1, 3, (960, 0, 2, 0)),
        ("ring", "broadcast", 3, 2, (480, 480, 3, 2)),
        # halving and doubling send as much in log2 n steps; ranks beyond a power of two fold theirs in and out again
        ("halving_doubling", "all_reduce", 1, 8, (1680, 0, 6, 0)),
        ("halving_doubling", "all_reduce", 1, 3, (1920, 0, 4, 0)),
        ("halving_doubling", "all_gather", 1, 6, (1680, 0, 4, 0)),
        ("halving_doubling", "all_reduce", 4, 2, (960, 720, 2, 4)),
        # all pairs at once: S/n to each other rank, once for each pass
        ("direct", "all_reduce", 1, 3, (1280, 0, 2, 0)),
        ("direct", "reduce_scatter", 1, 8, (840, 0, 1, 0)),
        ("direct", "all_reduce", 3, 2, (320, 1280, 0, 2)),
        ("one_shot", "all_reduce", 1, 3, (1920, 0, 1, 0)),
        ("one_shot", "all_reduce", 2, 3, (1920, 2880, 0, 1)),
    ],
)
def test_bytes_and_hops(
    algorithm: str, op: str, domains: int, each: int, expected: tuple[float, float, float, float]
) -> None:
    assert counted(algorithm, op, domains, each) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "direct", "one_shot"])
def test_a_rank_alone_sends_nothing(algorithm: str) -> None:
    assert counted(algorithm, "all_reduce", 1, 1) == (0.0, 0.0, 0.0, 0.0)
