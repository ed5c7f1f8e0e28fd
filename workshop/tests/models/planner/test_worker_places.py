"""Places of workers on a matrix of rates: better than the order of ranks on uneven links, equal on even ones."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from windtunnel_lab.models.planner.worker_places import Exchange, annealed, exposed_s, in_order

EXCHANGE = Exchange(stages=2, replicas=4, hop_bytes=1e9, gradient_bytes=4e9)


def matrix(seed: int, nodes: int = 8) -> np.ndarray:
    """The spread that two measured pairs of nodes have, 11,072 and 14,497 MB/s (Pipette's repository)."""
    rates = np.random.default_rng(seed).uniform(11.072e9, 14.497e9, (nodes, nodes))
    return np.asarray(rates)


@pytest.mark.parametrize("seed", range(4))
def test_uneven_links_are_used_better_than_in_rank_order(seed: int) -> None:
    rates = matrix(seed)
    found = annealed(rates, EXCHANGE, seed=seed)
    assert sorted(found.ravel()) == list(range(8))
    assert exposed_s(found, rates, EXCHANGE) < exposed_s(in_order(EXCHANGE), rates, EXCHANGE)


def test_even_links_leave_nothing_to_gain() -> None:
    rates = np.full((8, 8), 12.5e9)
    there = exposed_s(in_order(EXCHANGE), rates, EXCHANGE)
    assert exposed_s(annealed(rates, EXCHANGE, steps=300), rates, EXCHANGE) == there
    assert there == pytest.approx((1e9 + 1.5 * 4e9) / 12.5e9)


def test_few_nodes_reach_what_enumeration_finds() -> None:
    small, rates = Exchange(stages=2, replicas=3, hop_bytes=1e9, gradient_bytes=4e9), matrix(9, 6)
    every = min(exposed_s(np.array(p).reshape(2, 3), rates, small) for p in permutations(range(6)))
    assert exposed_s(annealed(rates, small), rates, small) == pytest.approx(every)


def test_a_matrix_of_other_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="must be"):
        annealed(np.ones((3, 3)), EXCHANGE)
