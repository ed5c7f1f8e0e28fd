"""Which spine a flow takes in a fat tree: sprayed, hashed, planned, or cut into pieces that fit.

Flows of one collective start together and are of one size, so that the busiest link decides when it ends.

Sources: planned paths: Dong et al., Boosting Large-scale Parallel Training Efficiency with C4, HPCA 2025. Cutting few
flows so that every spine carries the same: Addanki, Goyal & Marinos, arXiv 2407.00550.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints
from windtunnel.network.topology import FatTree, mixed

ROUTINGS = ("spray", "ecmp", "planned", "split")


@dataclass(frozen=True, slots=True)
class Routed:
    """Flows, or pieces of flows, with their paths."""

    tree: FatTree
    """Whose links `routes` numbers (spraying joins the spines of a leaf to one link)."""
    routes: Ints
    """Shape (pieces, longest)."""
    nbytes: Floats
    flow: Ints
    """Which flow each piece belongs to."""

    @property
    def cuts(self) -> int:
        """Pieces beyond one a flow."""
        return len(self.flow) - len(np.unique(self.flow))

    def busy_s(self, capacity: Floats | None = None) -> float:
        """Seconds of the busiest link: when flows of one size that start together have all ended."""
        return busiest_s(self.routes, self.nbytes, self.tree.capacity if capacity is None else capacity)


def busiest_s(routes: Ints, nbytes: Floats, capacity: Floats) -> float:
    """Bytes over rate of the busiest link."""
    used = routes >= 0
    load = np.bincount(
        routes[used], weights=np.broadcast_to(nbytes[:, None], routes.shape)[used], minlength=len(capacity)
    )
    return float(np.max(load / capacity, initial=0.0))


def route(
    tree: FatTree, src: Ints, dst: Ints, nbytes: npt.ArrayLike, routing: str, connection: Ints | None = None
) -> Routed:
    """Paths of flows by one rule.

    Args:
        tree: The fabric; its own `spray` is not read.
        src: Sending device of each flow.
        dst: Receiving one.
        nbytes: Of each flow.
        routing: One of `ROUTINGS`.
        connection: Number of a flow among those of its pair, which the hash sees too.
    """
    if routing not in ROUTINGS:
        raise ValueError(f"routing = {routing}: one of {', '.join(ROUTINGS)}")
    size = np.broadcast_to(np.asarray(nbytes, np.float64), src.shape)
    flow, tree = np.arange(len(src)), replace(tree, spray=routing == "spray")
    if routing == "spray":
        way = np.zeros_like(src)
    elif routing == "ecmp":
        way = mixed(src, dst, tree.seed)
        way = (way if connection is None else mixed(way % (1 << 31), connection, tree.seed)) % tree.spines
    elif routing == "planned":
        way = planned(tree, src, dst, size)
    else:
        flow, way, size = split(tree, src, dst, size)
    return Routed(tree, tree.through(src[flow], dst[flow], way), np.array(size), flow)


def _pairs(tree: FatTree, src: Ints, dst: Ints) -> list[Ints]:
    """Flows that cross, by (leaf, leaf)."""
    crossing = np.flatnonzero(tree.crosses(src, dst))
    key = tree.leaf_of(src[crossing]) * tree.num_leaves + tree.leaf_of(dst[crossing])
    order = np.argsort(key, kind="stable")
    return np.split(crossing[order], np.flatnonzero(np.diff(key[order])) + 1) if len(order) else []


def planned(tree: FatTree, src: Ints, dst: Ints, nbytes: Floats) -> Ints:
    """A spine for each whole flow: largest first, each where the fuller of its two links is emptiest."""
    way = np.zeros(len(src), np.int64)
    up, down = np.zeros((tree.num_leaves, tree.spines)), np.zeros((tree.num_leaves, tree.spines))
    for flows in _pairs(tree, src, dst):
        a, b = int(tree.leaf_of(src[flows[:1]])[0]), int(tree.leaf_of(dst[flows[:1]])[0])
        for f in flows[np.argsort(-nbytes[flows], kind="stable")].tolist():
            full = np.maximum(up[a], down[b])
            s = int(np.lexsort((up[a] + down[b], full))[0])
            way[f] = s
            up[a, s] += nbytes[f]
            down[b, s] += nbytes[f]
    return way


def split(tree: FatTree, src: Ints, dst: Ints, nbytes: Floats) -> tuple[Ints, Ints, Floats]:
    """(flow, spine, bytes) of pieces: the bytes between two leaves lie end to end and are cut into equal parts.

    Each part is one spine's. A pair of leaves with n flows over s spines has at most n + s − 1 pieces, and s −
    gcd(n, s) cuts where sizes are equal.
    """
    alone = np.flatnonzero(~tree.crosses(src, dst))
    flow, way, size = [alone], [np.zeros_like(alone)], [nbytes[alone]]
    for flows in _pairs(tree, src, dst):
        end = np.cumsum(nbytes[flows])
        part = end[-1] / tree.spines
        edges = np.sort(np.concatenate([end, part * np.arange(1, tree.spines)]))
        edges = edges[np.diff(edges, prepend=0.0) > 1e-9 * part]
        middle = 0.5 * (edges + np.concatenate([[0.0], edges[:-1]]))
        flow.append(flows[np.minimum(np.searchsorted(end, middle), len(flows) - 1)])
        way.append(np.minimum((middle / part).astype(np.int64), tree.spines - 1))
        size.append(np.diff(edges, prepend=0.0))
    return np.concatenate(flow), np.concatenate(way), np.concatenate(size)
