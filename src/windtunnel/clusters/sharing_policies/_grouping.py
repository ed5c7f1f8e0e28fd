"""Groups of jobs that share devices by turns of their stages: matchings of the greatest weight in rounds (Muri)."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.sharing_policies._stages import SLOTS, Stages, together_s

MOST = 4
"""Jobs in a group: one a resource."""
_MOST_KINDS = 60
"""Kinds of groups up to which a linear programme matches them; above, the heaviest pair first."""
Kind = tuple[Stages, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs on the same devices."""

    jobs: tuple[int, ...]
    stages: Kind

    def with_(self, other: Group) -> Group:
        """Both on the devices of one."""
        return Group((*self.jobs, *other.jobs), tuple(sorted((*self.stages, *other.stages))))


def group_s(stages: Kind, slower: tuple[float, ...]) -> float:
    """Seconds in which each job of a group does one iteration, with what sharing costs next to the turns."""
    return together_s(stages) * (slower[len(stages) - 2] if len(stages) > 1 else 1.0)


def form_groups(sizes: dict[int, list[Group]], devices: int, slower: tuple[float, ...]) -> dict[int, list[Group]]:
    """Match groups of equal size until their devices suffice, or all are full.

    Args:
        sizes: devices of a job → groups of one job each.
        devices: of the room.
        slower: time of two, three and four jobs together, over that of their turns.
    """
    needed = sum(size * len(groups) for size, groups in sizes.items())
    for _ in range(MOST):
        if needed <= devices:
            break
        pairs = [(waste, size, a, b) for size, groups in sizes.items() for waste, a, b in _match(groups, size, slower)]
        if not pairs:
            break
        sizes = {size: list(groups) for size, groups in sizes.items()}
        for _, size, a, b in sorted(pairs, key=lambda pair: pair[0]):
            if needed <= devices:
                break
            sizes[size].remove(a)
            sizes[size][sizes[size].index(b)] = b.with_(a)
            needed -= size
    return sizes


def _match(groups: list[Group], size: int, slower: tuple[float, ...]) -> list[tuple[float, Group, Group]]:
    """Pairs of the matching of the greatest weight, each with the devices that it wastes."""
    by_kind: dict[Kind, list[Group]] = defaultdict(list)
    for group in groups:
        by_kind[group.stages].append(group)
    counts = tuple(sorted((kind, len(found)) for kind, found in by_kind.items()))
    out = []
    for a, b, times in _matching(counts, slower):
        for _ in range(times):
            first, second = by_kind[a].pop(0), by_kind[b].pop(0)
            out.append(((1 - _used(a, b, slower)) * size, first, second))
    return out


def _used(a: Kind, b: Kind, slower: tuple[float, ...]) -> float:
    """Share of the resources' time that a pair uses."""
    both = tuple(sorted((*a, *b)))
    return sum(sum(stages.seconds) for stages in both) / (group_s(both, slower) * SLOTS)


@lru_cache(maxsize=20_000)
def _matching(counts: tuple[tuple[Kind, int], ...], slower: tuple[float, ...]) -> list[tuple[Kind, Kind, int]]:
    """How many pairs of each two kinds.

    Jobs of one kind are alike, so that a small linear programme stands for the matching of jobs; what it leaves as
    halves (odd cycles) goes to the heaviest pair first.
    """
    kinds = [kind for kind, _ in counts]
    pairs = [
        (i, j)
        for i, j in combinations_with_replacement(range(len(kinds)), 2)
        if len(kinds[i]) + len(kinds[j]) <= MOST and (i != j or counts[i][1] > 1)
    ]
    if not pairs:
        return []
    weights = np.array([_used(kinds[i], kinds[j], slower) for i, j in pairs])
    have = np.array([count for _, count in counts], np.float64)
    times = np.zeros(len(pairs), np.int64)
    if len(kinds) <= _MOST_KINDS:
        times = np.floor(_programme(pairs, weights, have) + 1e-6).astype(np.int64)
    times += _heaviest_first(pairs, weights, have - _uses(pairs, len(kinds)) @ times)
    return [(kinds[i], kinds[j], int(n)) for (i, j), n in zip(pairs, times, strict=True) if n]


def _uses(pairs: list[tuple[int, int]], kinds: int) -> Floats:
    """Kind × pair: jobs of the kind in the pair."""
    uses = np.zeros((kinds, len(pairs)))
    for column, (i, j) in enumerate(pairs):
        uses[i, column] += 1
        uses[j, column] += 1
    return uses


def _programme(pairs: list[tuple[int, int]], weights: Floats, have: Floats) -> Floats:
    """Pairs of the greatest weight, of which those on odd cycles may come out as halves."""
    from scipy.optimize import linprog

    found = linprog(-weights, A_ub=_uses(pairs, len(have)), b_ub=have, method="highs-ds")
    if found.x is None:
        raise ArithmeticError(f"the matching was not solved: {found.message}")
    out: Floats = found.x
    return out


def _heaviest_first(pairs: list[tuple[int, int]], weights: Floats, have: Floats) -> Ints:
    left, times = Counter(dict(enumerate(have.astype(int).tolist()))), np.zeros(len(pairs), np.int64)
    for column in np.argsort(-weights, kind="stable"):
        i, j = pairs[column]
        times[column] = left[i] // 2 if i == j else min(left[i], left[j])
        left[i] -= times[column]
        left[j] -= times[column]
    return times
