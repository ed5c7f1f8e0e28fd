"""Busiest links of collectives on random leaf-spine fabrics: cut flows against spraying and hashing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.network.routing import Routed, route
from windtunnel.network.topology import FatTree, Ids, TwoLevel
from windtunnel.papers import ClaimResult
from windtunnel.papers.claims import Measure, Values, load, results

TITLE = "Single paths and few cut flows (Addanki et al. 2024)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel.papers.flow_split_singlepath")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


def collectives(ranks: int, rng: np.random.Generator) -> Iterator[tuple[Ids, Ids]]:
    """(sender, receiver) of flows: a ring over ranks placed at random, halving at half the ring, all-to-all of some."""
    place = rng.permutation(ranks)
    yield place, np.roll(place, -1)
    yield place, np.roll(place, ranks // 2)
    few = place[: min(ranks, 48)]
    src, dst = np.repeat(few, len(few)), np.tile(few, len(few))
    yield src[src != dst], dst[src != dst]


@lru_cache(maxsize=64)
def routed(spines: int, ports: int, oversubscription: float) -> tuple[tuple[Routed, Routed, Routed], ...]:
    """(sprayed, cut, hashed) of every collective on every random fabric."""
    rng, out = np.random.default_rng(1), []
    for _ in range(fixed("fabrics")):
        leaves = int(rng.integers(2, 9))
        base = TwoLevel(leaves * ports, 1, 1e30, 1, 50e9)
        tree = FatTree(base, ports, oversubscription, spines, spray=False, seed=int(rng.integers(1 << 20)))
        for src, dst in collectives(leaves * ports, rng):
            spray, cut, hashed = (route(tree, src, dst, 1e6, how) for how in ("spray", "split", "ecmp"))
            out.append((spray, cut, hashed))
    return tuple(out)


def of(values: Values) -> tuple[tuple[Routed, Routed, Routed], ...]:
    """The same by the names of the settings."""
    return routed(values["spines"], values["ports_per_leaf"], values["oversubscription"])


def congestion(values: Values) -> float:
    """Largest ratio of the busiest link to that under spraying."""
    return max(cut.busy_s() / spray.busy_s() for spray, cut, _ in of(values))


def cut_share(values: Values) -> float:
    """Largest share of flows that had to be cut."""
    return max(float(np.mean(np.bincount(cut.flow) > 1)) for _, cut, _ in of(values))


def hashing(values: Values) -> float:
    """Smallest ratio of the busiest link under hashing to that of cut flows."""
    return min(hashed.busy_s() / cut.busy_s() for _, cut, hashed in of(values))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"congestion": congestion, "minimal": cut_share, "hashing": hashing}


def run() -> list[ClaimResult]:
    """Equal congestion, few cuts, and what hashing costs."""
    return results(setting(), "flow-split-singlepath", measures())
