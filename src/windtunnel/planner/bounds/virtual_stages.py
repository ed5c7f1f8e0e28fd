"""Layers of virtual stages: what a split over several model parts a stage needs, bounds, and splits worth trying.

With one part a stage the partition is exact (`partition`). With several, what a stage holds and runs is spread over the
depth, so that no dynamic program over ranges knows it. A lower bound of all splits still does: stages share what all
layers take, some stage has at least the mean of it, and none starts before one layer of every part above it has run.
Splits to try are few: stage totals as even as the ends of the model allow, spread over a stage's parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from windtunnel import schedules
from windtunnel.arrays import Floats, Ints
from windtunnel.planner.bounds.pipeline_shape import table_of_few
from windtunnel.planner.bounds.stage_partition import Depth
from windtunnel.schedules.table import B, F


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """Virtual stages of one candidate. K parts in depth order, S stages."""

    depth: Depth
    m: int
    stage_of: Ints
    """(K,)."""
    live: Floats
    """(K,) micro-batches of each part that are in flight when its stage holds most."""
    travel_s: Floats
    """(S,) from the first part down to a stage's first."""
    split: bool
    capacity_bytes: float
    again: int | None
    """Layers of a stage that recompute; None for as many as memory asks for."""

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return int(self.stage_of.max()) + 1


@dataclass(frozen=True, slots=True)
class Given:
    """One split: layers that recompute on each stage, its bound, and what stages hold, (S,)."""

    recompute: tuple[int, ...]
    bound_s: float
    bytes: Floats


@lru_cache(maxsize=1024)
def live_parts(schedule: str, pp: int, vpp: int, m: int) -> tuple[float, ...]:
    """(K,): micro-batches of each part in flight when its stage holds most; 0 where that depends on the split."""
    if schedules.describe(schedule).uses_costs:
        return (0.0,) * (pp * vpp)
    table = table_of_few(schedule, pp, vpp, m)
    part_of = np.zeros((pp, vpp), np.int64)
    part_of[table.placement[:, 0], table.placement[:, 1]] = np.arange(pp * vpp)
    out = np.zeros(pp * vpp)
    for s in range(pp):
        rows = np.arange(int(table.stage_ptr[s]), int(table.stage_ptr[s + 1]))
        change = np.where(table.kind[rows] == F, 1.0, np.where(table.kind[rows] == B, -1.0, 0.0))
        held = np.zeros((len(rows), vpp))
        held[np.arange(len(rows)), table.chunk[rows]] = change
        held = np.cumsum(held, axis=0)
        out[part_of[s]] = held[int(np.argmax(held.sum(axis=1)))]
    return tuple(out.tolist())


def given(x: Chunks, layers: tuple[int, ...], over_bytes: Floats | None = None) -> Given:
    """Recomputation and bound of one split. An infinite bound where memory is short with all layers recomputing."""
    d, p = x.depth, x.stages
    ends = np.cumsum([0, *layers])
    after = 0.0 if x.split else 1.0
    held = np.zeros(p) if over_bytes is None else over_bytes.copy()
    own, extra, counts, fill = np.zeros(p), np.zeros(p), np.zeros(p, np.int64), np.full(p, np.inf)
    above = 0.0
    saves: list[list[float]] = [[] for _ in range(p)]
    costs: list[list[float]] = [[] for _ in range(p)]
    for k, s in enumerate(x.stage_of.tolist()):
        part = slice(int(ends[k]), int(ends[k + 1]))
        end = x.depth.ends_s[:, 0] * (k == 0) + x.depth.ends_s[:, 1] * (k == len(layers) - 1)
        passes = float(d.forward_s[part].sum() + end[0]), float(d.backward_s[part].sum() + end[1])
        fill[s] = min(fill[s], above)
        above += passes[0] + after * passes[1]
        own[s] += sum(passes) + float(d.weight_s[part].sum() + end[2])
        held[s] += float(d.static_bytes[part].sum() + x.live[k] * d.kept_bytes[part].sum())
        held[s] += d.ends_bytes[0] * (k == 0) + d.ends_bytes[1] * (k == len(layers) - 1)
        saves[s] += (x.live[k] * d.saved_bytes[part]).tolist()
        costs[s] += d.again_s[part].tolist()
    for s in range(p):
        saved = np.concatenate([[0.0], np.cumsum(saves[s])])
        most = len(costs[s])
        enough = int(np.searchsorted(saved, held[s] - x.capacity_bytes))
        counts[s] = min(most, enough if x.again is None else x.again)
        held[s] -= saved[counts[s]]
        extra[s] = sum(costs[s][: counts[s]])
    way = x.travel_s * (1.0 + after)
    bound = float((fill + way + x.m * (own + extra)).max())
    fits = bool((held <= x.capacity_bytes * (1 + 1e-9)).all())
    return Given(tuple(counts.tolist()), bound if fits else float("inf"), held)


def least_s(x: Chunks) -> float:
    """No split with a layer in every part is faster: mean of the stages, and the fullest with whole layers."""
    d, p = x.depth, x.stages
    one = d.forward_s + d.backward_s + d.weight_s
    again = float(d.again_s.sum()) if x.again == len(d) else 0.0
    whole = float(one.sum() + d.ends_s.sum()) + again
    first = np.array([int(np.flatnonzero(x.stage_of == s)[0]) for s in range(p)])
    shortest = float((d.forward_s + (0.0 if x.split else 1.0) * d.backward_s).min())
    mean = x.m * whole / p + float((np.maximum(first - 1, 0) * shortest).mean())  # the first part may have no layer
    ends = np.zeros(p)
    ends[x.stage_of[0]] += float(d.ends_s[:, 0].sum())
    ends[x.stage_of[-1]] += float(d.ends_s[:, 1].sum())
    layer = float(one.min()) + (float(d.again_s.min()) if again else 0.0)
    full = sorted({float(end + n * layer) for end in ends.tolist() for n in range(len(d) + 1)})
    full = [t for t in full if t >= ends.max()]
    most = next((t for t in full if np.floor((t - ends) / layer + 1e-9).clip(0).sum() >= len(d)), 0.0)
    return max(mean, x.m * most * (1 - 1e-9))


def least_bytes(x: Chunks) -> float:
    """Memory of the fullest stage that every split needs: the mean over all, with fewest micro-batches in flight."""
    d = x.depth
    kept = d.kept_bytes - (0.0 if x.again == 0 else d.saved_bytes)
    return float(d.static_bytes.sum() + d.ends_bytes.sum() + x.live.min() * kept.sum()) / x.stages


def splits(x: Chunks) -> list[tuple[int, ...]]:
    """Splits worth trying: stage totals as even as the ends allow, the remainder on a stage's first or last parts."""
    d, p, parts = x.depth, x.stages, len(x.stage_of)
    vpp = parts // p
    one = float((d.forward_s + d.backward_s + d.weight_s).mean())
    load = np.zeros(p)
    load[x.stage_of[0]] += float(d.ends_s[:, 0].sum())
    load[x.stage_of[-1]] += float(d.ends_s[:, 1].sum())
    if len(d) < parts:
        return []
    totals = np.full(p, vpp)
    for _ in range(len(d) - parts):  # one more layer where it hurts least
        totals[int(np.argmin(load + totals * one))] += 1
    out = []
    for first in (True, False):
        layers = np.zeros(parts, np.int64)
        for s in range(p):
            mine = np.flatnonzero(x.stage_of == s)
            base, rest = divmod(int(totals[s]), vpp)
            layers[mine] = base
            layers[mine[:rest] if first else mine[vpp - rest :]] += 1
        out.append(tuple(layers.tolist()))
    return list(dict.fromkeys(out))
