"""Which layers each pipeline stage gets, and how many of them recompute: dynamic programming, exact.

A stage of a pipeline is a range of layers. What a range costs a step depends on the range and on the stage alone, as
long as it is bounded along these paths, which every simulation walks (one part of the model a stage):

* a stage waits for the first micro-batch, runs all its passes, and the stages above still have to go backward;
* its first backward waits for that micro-batch to go down and come up again, and only then come the passes that the
  schedule puts after it;
* its last forward comes after the backward passes that the schedule puts before it, and that micro-batch still has to
  go down and up.

The largest of these over all stages and paths is a lower bound of the step, and its minimum over all partitions is
found stage by stage: the best way to put the first j layers on the first s stages is the best of all ways to put
i ≤ j of them on s − 1 stages and the rest on the last. Among partitions with the same bound the one wins that adds
least recomputation to a micro-batch's way through the model, then the one with the most even stages.

Memory is a limit of every range: where the number of layers to recompute is free it is the least that fits, because
each one more only takes time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask

_ROUNDING = 1e-9
"""Share by which two sums of the same seconds may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """Layers in depth order as one rank runs them for one micro-batch, shape (D,), and the two ends of the model."""

    forward_s: Floats
    backward_s: Floats
    """Without recomputation."""
    weight_s: Floats
    """Weight gradients that the schedule runs apart; else 0 and part of `backward_s`."""
    recompute_s: Floats
    """What recomputing a layer adds to its backward."""
    kept_bytes: Floats
    """From forward to backward, without recomputation."""
    saved_bytes: Floats
    """What recomputing a layer keeps less."""
    static_bytes: Floats
    """Weights, gradients, optimizer state."""
    ends_s: Floats
    """(3, 2): forward, backward, weight gradient of what comes before the first and after the last layer."""
    ends_bytes: Floats
    """(2,)."""

    def __len__(self) -> int:
        return len(self.forward_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What a schedule asks of its stages, shape (S,)."""

    m: int
    """Micro-batches."""
    live: Floats
    """Micro-batches whose activations a stage holds at once."""
    warm: Ints
    """Forward passes before the first backward."""
    between: Ints
    """Backward passes before the last forward."""
    travel_s: Floats
    """From the first stage down to this one."""
    sends_s: Floats
    """Hops that a stage waits for in each micro-batch."""
    split: bool = False
    """Whether weight gradients may come after a stage's last backward."""

    def __len__(self) -> int:
        return len(self.live)


@dataclass(frozen=True, slots=True)
class Partition:
    """Layers of each stage."""

    layers: tuple[int, ...]
    recompute: tuple[int, ...]
    """Layers of each stage that recompute, the first ones."""
    bound_s: float
    """No step with this partition is shorter."""
    recompute_s: float
    """Recomputation on a micro-batch's way through all stages."""


@dataclass(frozen=True, slots=True)
class RangeCosts:
    """What belongs to a range beside its passes: (3, D + 1, D + 1) for layers i to j of a first, middle, last stage."""

    after_s: Floats
    """Follows its last backward."""
    least_s: Floats
    """The step is no shorter than this, whatever the passes take."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges that one stage could get; an infinite bound where it cannot."""

    bound_s: Floats
    bytes: Floats
    recomputed: Ints
    """Layers that recompute."""
    recompute_s: Floats
    own_s: Floats


@dataclass(frozen=True, slots=True)
class Cut:
    """What is to be cut, for which schedule and device."""

    depth: Depth
    pipe: Pipeline
    capacity_bytes: float
    recomputed: int | None
    """Layers of a stage that recompute; None for as many as memory asks for."""
    over_bytes: Floats | None = None
    """(S,) what a stage holds beyond layers and ends."""
    range_costs: RangeCosts | None = None


class _Layers:
    """Ranges of layers i to j, arrays of one shape with i ≤ j: what they add up to is the same on every stage."""

    def __init__(self, cut: Cut, i: Ints, j: Ints) -> None:
        self.cut, self.i, self.n = cut, i, j - i
        names = ("forward_s", "backward_s", "weight_s", "recompute_s", "kept_bytes", "saved_bytes", "static_bytes")
        self.sums = {name: np.concatenate([[0.0], np.cumsum(getattr(cut.depth, name))]) for name in names}
        self.over = {name: total[j] - total[i] for name, total in self.sums.items()}
        self.above_f, self.above_b = self.sums["forward_s"][i], self.sums["backward_s"][i]
        self.saved_above = self.sums["saved_bytes"][i]
        if cut.recomputed is not None:
            self.fixed = self._recompute_first(np.minimum(self.n, cut.recomputed))
        self.range_costs = (
            None
            if cut.range_costs is None
            else [(cut.range_costs.after_s[end][i, j], cut.range_costs.least_s[end][i, j]) for end in range(3)]
        )

    def _recompute_first(self, layers: Ints) -> tuple[Ints, Floats, Floats]:
        """Layers that recompute, bytes that they keep less, seconds that they add."""
        last = self.i + layers
        extra = self.sums["recompute_s"][last] - self.sums["recompute_s"][self.i]
        return layers, self.sums["saved_bytes"][last] - self.saved_above, extra

    def on(self, s: int) -> Ranges:
        """The ranges on stage s."""
        depth, pipe, over, cut = self.cut.depth, self.cut.pipe, self.over, self.cut
        first, last = s == 0, s == len(pipe) - 1
        ends = depth.ends_s[:, 0] * first + depth.ends_s[:, 1] * last
        size, recomputed, extra = self._recomputed(s)
        forward, weight = over["forward_s"] + ends[0], over["weight_s"] + ends[2]
        backward = over["backward_s"] + extra + ends[1]
        bound = self._bound(s, forward, backward, weight, extra)
        if self.range_costs is not None:
            after_s, least_s = self.range_costs[0 if first else 2 if last else 1]
            bound = np.maximum(bound + after_s, least_s)
        fits = size <= cut.capacity_bytes * (1 + _ROUNDING)
        if not first and not last:  # a stage without layers is an end of the model
            fits &= self.n > 0
        return Ranges(np.where(fits, bound, np.inf), size, recomputed, extra, forward + backward + weight)

    def _recomputed(self, s: int) -> tuple[Floats, Ints, Floats]:
        """Bytes that ranges hold on stage s, layers of them that recompute, and seconds that this adds."""
        depth, over, cut = self.cut.depth, self.over, self.cut
        beyond = float(depth.ends_bytes[0] * (s == 0) + depth.ends_bytes[1] * (s == len(cut.pipe) - 1))
        if cut.over_bytes is not None:
            beyond += float(cut.over_bytes[s])
        live = float(cut.pipe.live[s])
        size = over["static_bytes"] + live * over["kept_bytes"] + beyond
        if cut.recomputed is None:
            need = (size - cut.capacity_bytes) / max(live, 1e-30)
            enough = np.searchsorted(self.sums["saved_bytes"], self.saved_above + need)
            recomputed, saved, extra = self._recompute_first(np.clip(enough - self.i, 0, self.n))
        else:
            recomputed, saved, extra = self.fixed
        return size - live * saved, recomputed, extra

    def _bound(self, s: int, forward: Floats, backward: Floats, weight: Floats, extra: Floats) -> Floats:
        depth, pipe = self.cut.depth, self.cut.pipe
        m, warm, between, down = pipe.m, int(pipe.warm[s]), int(pipe.between[s]), float(pipe.travel_s[s])
        whole = float(self.sums["forward_s"][-1] + self.sums["backward_s"][-1] + depth.ends_s[:2].sum())
        whole += 2.0 * float(pipe.travel_s[-1])
        first_f, first_b = (float(depth.ends_s[0, 0]), float(depth.ends_s[1, 0])) if s else (0.0, 0.0)
        # a blocking hop is part of a stage and of the way: counted once
        sends = float(pipe.sends_s[s])
        twice = float(np.diff(pipe.travel_s).max(initial=0.0)) if pipe.sends_s.any() else 0.0
        fill, drain = self.above_f + (first_f + down), self.above_b + (first_b + down - twice)
        passes = forward + backward + sends
        finish = fill + m * (passes + weight)
        own = np.maximum(finish, (fill + m * passes if pipe.split else finish) + drain)
        back = whole + extra + (m - 1) * backward + (m - warm) * forward
        # the forward here, and all passes below
        below = (whole - first_f - first_b - 2.0 * down) - self.above_f - self.above_b - backward + extra
        if between > 0:
            late = whole + extra + below + between * backward + (m - 1 - warm) * forward
        else:
            late = fill + (m - 1) * forward + below + backward + self.above_b + (first_b + down)
        return np.asarray(np.maximum(np.maximum(own, back), late))


def even_layers(depth: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage when only their number counts, the remainder in the middle."""
    base, extra = divmod(depth, stages)
    start = (stages - extra) // 2
    return tuple(base + (start <= s < start + extra) for s in range(stages))


def partition(cut: Cut, layers: tuple[int, ...] | None = None) -> Partition | None:
    """The partition with the smallest bound that fits; None where none does.

    Args:
        cut: What is cut.
        layers: A partition to keep: only recomputation is chosen.
    """
    given = layers or even_layers(len(cut.depth), len(cut.pipe))
    stages = _along(cut, given)
    known = max(float(one.bound_s[s]) for s, one in enumerate(stages))
    if layers is None:
        reached = _reached(cut, known)
        return None if reached is None else _chosen(cut, *reached)
    if not np.isfinite(known):
        return None
    counts = tuple(int(one.recomputed[s]) for s, one in enumerate(stages))
    return Partition(layers, counts, known, sum(float(one.recompute_s[s]) for s, one in enumerate(stages)))


def least_bound(cut: Cut, layers: tuple[int, ...] | None = None) -> float:
    """Bound of the best partition that fits; infinite where none does."""
    given = layers or even_layers(len(cut.depth), len(cut.pipe))
    known = max(float(one.bound_s[s]) for s, one in enumerate(_along(cut, given)))
    if layers is not None:
        return known
    reached = _reached(cut, known)
    return float("inf") if reached is None else reached[0]


def _along(cut: Cut, layers: tuple[int, ...]) -> list[Ranges]:
    """Ranges of one partition on every stage; entry s of stage s is its own."""
    ends = np.cumsum([0, *layers])
    own = _Layers(cut, ends[:-1], ends[1:])
    return [own.on(s) for s in range(len(layers))]


def _band(depth: Depth, stages: int, m: int, known_s: float) -> tuple[Ints, Ints, Mask]:
    """Ranges that a partition no worse than a known one can have: row j, column by length, and which of them exist."""
    d = len(depth)
    shortest = max(float((depth.forward_s + depth.backward_s + depth.weight_s).min()), 1e-30)
    most = int(min(known_s * (1 + _ROUNDING) / (m * shortest), d))  # a stage runs all its passes
    fewest = max(d - (stages - 1) * most, 0)
    j, n = np.meshgrid(np.arange(d + 1), np.arange(fewest, most + 1), indexing="ij")
    return np.maximum(j - n, 0), j, n <= j


_Reached = tuple[float, list[Ranges], Ints, Mask]


def _reached(cut: Cut, known_s: float) -> _Reached | None:
    """Least bound, the ranges of every stage, where they begin, and which exist; None where no partition fits."""
    stages, d = len(cut.pipe), len(cut.depth)
    i, j, real = _band(cut.depth, stages, cut.pipe.m, known_s)
    layers = _Layers(cut, i, j)
    found = [layers.on(s) for s in range(stages)]
    best = np.full(d + 1, np.inf)
    best[0] = 0.0
    for one in found:
        best = np.where(real, np.maximum(best[i], one.bound_s), np.inf).min(axis=1)
    return (float(best[-1]), found, i, real) if np.isfinite(best[-1]) else None


def _chosen(cut: Cut, bound: float, found: list[Ranges], i: Ints, real: Mask) -> Partition:
    """Among partitions within the bound: least recomputation on the way, then even stages."""
    depth = cut.depth
    scale = max(float((depth.forward_s + depth.backward_s).sum()), 1e-30)
    total = np.full(len(depth) + 1, np.inf)
    total[0] = 0.0
    choice = []
    for one in found:
        score = np.where(
            one.bound_s <= bound * (1 + _ROUNDING), one.recompute_s + _ROUNDING * one.own_s**2 / scale, np.inf
        )
        reached = np.where(real, total[i] + score, np.inf)
        choice.append(np.argmin(reached, axis=1))
        total = reached.min(axis=1)
    at, extra = len(depth), 0.0
    layers, counts = [], []
    for one, chosen in zip(reversed(found), reversed(choice), strict=True):
        column = int(chosen[at])
        counts.append(int(one.recomputed[at, column]))
        extra += float(one.recompute_s[at, column])
        layers.append(at - int(i[at, column]))
        at = int(i[at, column])
    return Partition(tuple(reversed(layers)), tuple(reversed(counts)), bound, extra)


def least_bytes(cut: Cut, layers: tuple[int, ...] | None = None) -> float:
    """Memory of the fullest stage that every partition needs; where recomputation is free, with all of it."""
    d, stages = len(cut.depth), len(cut.pipe)
    recomputed = d if cut.recomputed is None else cut.recomputed
    cut = replace(cut, capacity_bytes=np.inf, recomputed=recomputed, range_costs=None)
    if layers is not None:
        return max(float(one.bytes[s]) for s, one in enumerate(_along(cut, layers)))
    i, j, real = _band(cut.depth, stages, 1, np.inf)
    own = _Layers(cut, i, j)
    best = np.full(d + 1, np.inf)
    best[0] = 0.0
    for s in range(stages):
        found = own.on(s)
        size = np.where(np.isfinite(found.bound_s), found.bytes, np.inf)
        best = np.where(real, np.maximum(best[i], size), np.inf).min(axis=1)
    return float(best[-1])


def mean_bytes(cut: Cut) -> float:
    """Memory that the fullest stage needs at least: the mean over all, with fewest micro-batches in flight."""
    depth, least = cut.depth, float(cut.pipe.live.min())
    kept = depth.kept_bytes - (0.0 if cut.recomputed == 0 else depth.saved_bytes)
    return float(depth.static_bytes.sum() + depth.ends_bytes.sum() + least * kept.sum()) / len(cut.pipe)


def stage_bytes(cut: Cut, layers: tuple[int, ...], recompute: tuple[int, ...]) -> Floats:
    """(S,): what layers and ends of each stage hold."""
    out = []
    for s, recomputed in enumerate(recompute):
        bare = replace(cut, capacity_bytes=np.inf, recomputed=recomputed, over_bytes=None, range_costs=None)
        out.append(float(_along(bare, layers)[s].bytes[s]))
    return np.array(out)
