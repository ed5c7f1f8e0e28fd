"""Groups of unlike sizes, chosen anew for each micro-batch by a mixed-integer linear programme.

Documents are sorted by length and cut into micro-batches of as many tokens; inside one, documents are put in buckets of
like length, and the programme says how many groups of each size there are and how many documents of each bucket go to
groups of each size, so that the slowest group is fastest and no rank holds more tokens than it can.

Source: Wang et al. 2024 (arXiv 2412.01523): formulation, buckets, and batches cut by length.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from scipy.optimize import Bounds, LinearConstraint, milp

from windtunnel.arrays import Floats, Mask
from windtunnel.training.variable_length.rank_lanes import LAYOUTS, Case, Lanes, filled

BUCKETS = 12
LADDER = (1.03, 1.08, 1.15, 1.25, 1.4, 1.6, 1.9, 2.3, 3.0, 4.0, 6.0)
"""Times over a lower bound at which an answer is looked for, one after the other: relaxed, then in whole numbers."""
_SLACK = 1.05
"""Tokens of a micro-batch over what ranks hold: room for documents that do not fill them."""


@LAYOUTS.register("solved")
def solved(case: Case, rng: Generator) -> Lanes:
    """One programme a micro-batch; inside groups of one size documents are dealt by their time."""
    documents = np.sort(case.documents(rng))[::-1]
    lanes: list[list[Floats]] = [[] for _ in range(case.ranks)]
    shares: dict[int, float] = {}
    at = 0
    parts = max(int(np.ceil(documents.sum() * _SLACK / (case.capacity * case.ranks))), 1)
    share = documents.sum() / parts
    steps = np.searchsorted(documents.cumsum(), share * np.arange(1, parts + 1) - 1e-6) + 1
    for end in steps.tolist():
        if end > at:
            _micro_batch(documents[at:end], case, lanes, shares)
        at = max(at, end)
    total = float(documents.sum())
    shape = case.table.seconds[min(case.table.seconds)].shape[1:]
    return Lanes(
        filled(lanes, shape),
        total,
        total,
        float((documents**2).sum()),
        {w: share / total for w, share in sorted(shares.items())},
    )


def _micro_batch(documents: Floats, case: Case, lanes: list[list[Floats]], shares: dict[int, float]) -> None:
    """Add one micro-batch to every lane; documents that find no room make another."""
    widths = sorted(case.table.lengths)
    bucket = np.array_split(documents, min(BUCKETS, len(documents)))
    groups, dealt = groups_of(bucket, widths, case)
    depth = len(lanes[0])
    first, left = 0, []
    for width, number in sorted(groups.items(), reverse=True):
        tokens, squares, load = np.zeros(number), np.zeros(number), np.zeros(number)
        for length in np.sort(dealt[width])[::-1].tolist():
            fits = tokens + length <= case.capacity * width + 1e-6
            if not fits.any():
                left.append(length)
                continue
            i = int(np.where(fits, load, np.inf).argmin())
            tokens[i] += length
            squares[i] += length**2
            load[i] = float(case.table.busy_s(width, squares[i] / tokens[i], tokens[i] / width))
        for i in np.flatnonzero(tokens).tolist():
            seconds = case.table.of(width, squares[i] / tokens[i], tokens[i] / width)
            shares[width] = shares.get(width, 0.0) + float(tokens[i])
            for rank in range(first + i * width, first + (i + 1) * width):
                lanes[rank].append(seconds)
        first += width * number
    shape = case.table.seconds[widths[0]].shape[1:]
    for lane in lanes:
        lane.extend([np.zeros(shape)] * (depth + 1 - len(lane)))
    if left:
        _micro_batch(np.array(left), case, lanes, shares)


def groups_of(bucket: list[Floats], widths: list[int], case: Case) -> tuple[dict[int, int], dict[int, Floats]]:
    """(size → groups, size → documents): the shortest time for which the programme has an answer.

    Times are tried from a lower bound on, first without whole numbers, which is quickly refused.
    """
    counts = np.array([len(b) for b in bucket], np.float64)
    mean = np.array([b.mean() for b in bucket])
    cost = np.stack([case.table.busy_s(w, mean, mean / w) for w in widths])
    fits = np.array([[b.max() <= case.capacity * w + 1e-6 for b in bucket] for w in widths])
    low = float(np.where(fits, cost, np.inf).min(axis=0).max())  # no document is quicker than in its best group
    area = np.where(fits, cost * np.array(widths)[:, None], np.inf).min(axis=0)
    low = max(low, float((area * counts).sum()) / case.ranks)
    best = None
    for over in LADDER:
        if _feasible(low * over, counts, mean, cost, fits, widths, case, whole=False) is not None:
            best = _feasible(low * over, counts, mean, cost, fits, widths, case, whole=True)
            if best is not None:
                break
    if best is None:  # one group of all ranks takes any document
        return {widths[-1]: case.ranks // widths[-1]}, {widths[-1]: np.concatenate(bucket)}
    groups, number = best
    dealt: dict[int, list[float]] = {w: [] for w in widths}
    for q, own in enumerate(bucket):
        rest = np.sort(own)[::-1].tolist()
        for i in reversed(range(len(widths))):  # the longest of a bucket to the widest groups
            take = int(number[i, q])
            dealt[widths[i]] += rest[:take]
            rest = rest[take:]
    return {w: int(g) for w, g in zip(widths, groups, strict=True) if g}, {w: np.array(x) for w, x in dealt.items()}


def _feasible(
    limit_s: float,
    counts: Floats,
    mean: Floats,
    cost: Floats,
    fits: Mask,
    widths: list[int],
    case: Case,
    *,
    whole: bool,
) -> tuple[Floats, Floats] | None:
    """(groups of each size, (size, bucket) documents) that all end within a time, None where there are none."""
    d, q = len(widths), len(counts)
    size = np.array(widths, np.float64)
    n = d + d * q
    rows, low, high = [], [], []

    def add(row: Floats, least: float, most: float) -> None:
        rows.append(row)
        low.append(least)
        high.append(most)

    for i in range(d):
        busy, held = np.zeros(n), np.zeros(n)
        busy[d + i * q : d + (i + 1) * q] = np.where(fits[i], cost[i], 0.0)
        busy[i] = -limit_s
        add(busy, -np.inf, 0.0)
        held[d + i * q : d + (i + 1) * q] = mean
        held[i] = -case.capacity * size[i]
        add(held, -np.inf, 0.0)
    ranks = np.zeros(n)
    ranks[:d] = size
    add(ranks, 0.0, float(case.ranks))
    for j in range(q):
        every = np.zeros(n)
        every[d + j :: q] = 1.0
        every[:d] = 0.0
        add(every, counts[j], counts[j])
    most = np.concatenate([case.ranks // size, np.where(fits, counts[None, :], 0.0).ravel()])
    most[d:][np.where(fits, cost > limit_s * (1 + 1e-9), True).ravel()] = 0.0
    found = milp(
        ranks,
        constraints=LinearConstraint(np.array(rows), np.array(low), np.array(high)),
        integrality=np.full(n, float(whole)),
        bounds=Bounds(0.0, most),
        options={"node_limit": 20, "mip_rel_gap": 1.0},
    )
    if found.x is None:
        return None
    x = np.rint(found.x)
    return x[:d], x[d:].reshape(d, q)
