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
    recomputed: int | None
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


@dataclass(frozen=True, slots=True)
class _StageLoads:
    """What stages run and hold under one split, without recomputation. Arrays and lists by stage."""

    fill_s: Floats
    """Seconds before a stage's first part begins, hops apart."""
    own_s: Floats
    """Seconds of one micro-batch's passes."""
    held_bytes: Floats
    saved_bytes: list[list[float]]
    """What recomputing each layer of a stage keeps less."""
    recompute_s: list[list[float]]
    """What recomputing each layer adds."""

    @classmethod
    def of(cls, chunks: Chunks, layers: tuple[int, ...], over_bytes: Floats | None) -> _StageLoads:
        """Add parts up in depth order, on top of what stages hold beyond layers and ends."""
        depth, stages = chunks.depth, chunks.stages
        ends = np.cumsum([0, *layers])
        after = 0.0 if chunks.split else 1.0
        held = np.zeros(stages) if over_bytes is None else over_bytes.copy()
        own, fill, above = np.zeros(stages), np.full(stages, np.inf), 0.0
        saves: list[list[float]] = [[] for _ in range(stages)]
        costs: list[list[float]] = [[] for _ in range(stages)]
        for k, s in enumerate(chunks.stage_of.tolist()):
            part = slice(int(ends[k]), int(ends[k + 1]))
            end = depth.ends_s[:, 0] * (k == 0) + depth.ends_s[:, 1] * (k == len(layers) - 1)
            passes = float(depth.forward_s[part].sum() + end[0]), float(depth.backward_s[part].sum() + end[1])
            fill[s] = min(fill[s], above)
            above += passes[0] + after * passes[1]
            own[s] += sum(passes) + float(depth.weight_s[part].sum() + end[2])
            held[s] += float(depth.static_bytes[part].sum() + chunks.live[k] * depth.kept_bytes[part].sum())
            held[s] += depth.ends_bytes[0] * (k == 0) + depth.ends_bytes[1] * (k == len(layers) - 1)
            saves[s] += (chunks.live[k] * depth.saved_bytes[part]).tolist()
            costs[s] += depth.recompute_s[part].tolist()
        return cls(fill, own, held, saves, costs)


def given(chunks: Chunks, layers: tuple[int, ...], over_bytes: Floats | None = None) -> Given:
    """Recomputation and bound of one split. An infinite bound where memory is short with all layers recomputing.

    Args:
        chunks: the virtual stages.
        layers: (K,) layers of each part.
        over_bytes: (S,) what a stage holds beyond layers and ends; absent: nothing.
    """
    loads = _StageLoads.of(chunks, layers, over_bytes)
    held = loads.held_bytes
    stages = chunks.stages
    extra, counts = np.zeros(stages), np.zeros(stages, np.int64)
    for s in range(stages):
        saved = np.concatenate([[0.0], np.cumsum(loads.saved_bytes[s])])
        most = len(loads.recompute_s[s])
        enough = int(np.searchsorted(saved, held[s] - chunks.capacity_bytes))
        counts[s] = min(most, enough if chunks.recomputed is None else chunks.recomputed)
        held[s] -= saved[counts[s]]
        extra[s] = sum(loads.recompute_s[s][: counts[s]])
    way = chunks.travel_s * (1.0 + (0.0 if chunks.split else 1.0))
    bound = float((loads.fill_s + way + chunks.m * (loads.own_s + extra)).max())
    fits = bool((held <= chunks.capacity_bytes * (1 + 1e-9)).all())
    return Given(tuple(counts.tolist()), bound if fits else float("inf"), held)


def least_s(chunks: Chunks) -> float:
    """No split with a layer in every part is faster: mean of the stages, and the fullest with whole layers."""
    depth, stages = chunks.depth, chunks.stages
    one = depth.forward_s + depth.backward_s + depth.weight_s
    recomputed = float(depth.recompute_s.sum()) if chunks.recomputed == len(depth) else 0.0
    whole = float(one.sum() + depth.ends_s.sum()) + recomputed
    first = np.array([int(np.flatnonzero(chunks.stage_of == s)[0]) for s in range(stages)])
    shortest = float((depth.forward_s + (0.0 if chunks.split else 1.0) * depth.backward_s).min())
    mean = chunks.m * whole / stages + float(
        (np.maximum(first - 1, 0) * shortest).mean()
    )  # the first part may have no layer
    ends = np.zeros(stages)
    ends[chunks.stage_of[0]] += float(depth.ends_s[:, 0].sum())
    ends[chunks.stage_of[-1]] += float(depth.ends_s[:, 1].sum())
    layer = float(one.min()) + (float(depth.recompute_s.min()) if recomputed else 0.0)
    full = sorted({float(end + n * layer) for end in ends.tolist() for n in range(len(depth) + 1)})
    full = [t for t in full if t >= ends.max()]
    most = next((t for t in full if np.floor((t - ends) / layer + 1e-9).clip(0).sum() >= len(depth)), 0.0)
    return max(mean, chunks.m * most * (1 - 1e-9))


def least_bytes(chunks: Chunks) -> float:
    """Memory of the fullest stage that every split needs: the mean over all, with fewest micro-batches in flight."""
    depth = chunks.depth
    kept = depth.kept_bytes - (0.0 if chunks.recomputed == 0 else depth.saved_bytes)
    return float(depth.static_bytes.sum() + depth.ends_bytes.sum() + chunks.live.min() * kept.sum()) / chunks.stages


def splits(chunks: Chunks) -> list[tuple[int, ...]]:
    """Splits worth trying: stage totals as even as the ends allow, the remainder on a stage's first or last parts."""
    depth, stages, parts = chunks.depth, chunks.stages, len(chunks.stage_of)
    vpp = parts // stages
    one = float((depth.forward_s + depth.backward_s + depth.weight_s).mean())
    load = np.zeros(stages)
    load[chunks.stage_of[0]] += float(depth.ends_s[:, 0].sum())
    load[chunks.stage_of[-1]] += float(depth.ends_s[:, 1].sum())
    if len(depth) < parts:
        return []
    totals = np.full(stages, vpp)
    for _ in range(len(depth) - parts):  # one more layer where it hurts least
        totals[int(np.argmin(load + totals * one))] += 1
    out = []
    for first in (True, False):
        layers = np.zeros(parts, np.int64)
        for s in range(stages):
            mine = np.flatnonzero(chunks.stage_of == s)
            base, rest = divmod(int(totals[s]), vpp)
            layers[mine] = base
            layers[mine[:rest] if first else mine[vpp - rest :]] += 1
        out.append(tuple(layers.tolist()))
    return list(dict.fromkeys(out))
