"""Routing that remembers the layer before, and placements that keep tokens."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from windtunnel.cost.expert_placement import assigned, by_number, placed, stay, stays, successors


def test_without_affinity_a_token_stays_by_chance() -> None:
    found = stay(64, 8, 4, 0.0, False)
    assert found.rank == pytest.approx(1 / 8)
    assert found.node == pytest.approx(1 / 2)
    assert found.uneven == pytest.approx(1.0)


@pytest.mark.parametrize("experts", [8, 16, 64])
def test_placement_keeps_tokens_and_more_with_more_affinity(experts: int) -> None:
    ranks = experts // 2
    kept = [stay(experts, ranks, 4, affinity, True).rank for affinity in (0.5, 1.5, 3.0)]
    assert kept == sorted(kept)
    for affinity in (0.5, 1.5, 3.0):
        assert stay(experts, ranks, 4, affinity, True).rank > stay(experts, ranks, 4, affinity, False).rank
        assert stay(experts, ranks, 4, affinity, True).node >= stay(experts, ranks, 4, affinity, False).node


def test_the_programme_finds_the_best_of_all_assignments() -> None:
    gain = np.random.default_rng(5).random((6, 3))
    best = max(
        sum(gain[e, r] for e, r in enumerate(places))
        for places in itertools.product(range(3), repeat=6)
        if all(places.count(r) == 2 for r in range(3))
    )
    found = assigned(gain, 3)
    assert gain[np.arange(6), found].sum() == pytest.approx(best)
    assert (np.bincount(found) == 2).all()


def test_placements_have_as_many_experts_on_every_rank() -> None:
    rng = np.random.default_rng(1)
    chain = [successors(32, 1.5, rng) for _ in range(3)]
    load = [np.full(32, 1 / 32)]
    for step in chain:
        load.append(load[-1] @ step)
    where = placed(chain, load, 8, 4)
    assert all((np.bincount(places) == 4).all() for places in where)
    plain = stays(chain, load, [by_number(32, 8)] * 4, 8, 4)
    assert stays(chain, load, where, 8, 4).rank > 1.5 * plain.rank
    assert stays(chain, load, where, 8, 4).uneven >= 1.0
