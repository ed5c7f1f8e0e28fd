"""Busiest links of collectives on random leaf-spine fabrics: cut flows against spraying."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.network.routing import Routed, route
from windtunnel.network.topology import FatTree, TwoLevel
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "flow-split-singlepath")
fixed = EXPERIMENT.fixed


def collectives(ranks: int, rng: np.random.Generator) -> Iterator[tuple[Ints, Ints]]:
    """(sender, receiver) of flows: a ring over ranks placed at random, halving at half the ring, all-to-all of some."""
    place = rng.permutation(ranks)
    yield place, np.roll(place, -1)
    yield place, np.roll(place, ranks // 2)
    few = place[: min(ranks, 48)]
    src, dst = np.repeat(few, len(few)), np.tile(few, len(few))
    yield src[src != dst], dst[src != dst]


@lru_cache(maxsize=64)
def routed(spines: int, ports: int, oversubscription: float) -> tuple[tuple[Routed, Routed], ...]:
    """(sprayed, cut) of every collective on every random fabric."""
    rng, out = np.random.default_rng(1), []
    for _ in range(fixed("fabrics")):
        leaves = int(rng.integers(2, 9))
        base = TwoLevel(leaves * ports, 1, 1e30, 1, 50e9)
        tree = FatTree(
            base=base,
            leaf_domains=ports,
            oversubscription=oversubscription,
            spines=spines,
            spray=False,
            seed=int(rng.integers(1 << 20)),
        )
        for src, dst in collectives(leaves * ports, rng):
            out.append((route(tree, src, dst, 1e6, "spray"), route(tree, src, dst, 1e6, "split")))
    return tuple(out)


def congestion(values: Values) -> float:
    """Largest ratio of the busiest link to that under spraying."""
    pairs = routed(values["spines"], values["ports_per_leaf"], values["oversubscription"])
    return max(cut.busy_s() / spray.busy_s() for spray, cut in pairs)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {"congestion": congestion}
