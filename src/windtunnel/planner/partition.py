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

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_ROUNDING = 1e-9
"""Share by which two sums of the same seconds may differ."""


@dataclass(frozen=True, slots=True)
class Depth:
    """Layers in depth order as one rank runs them for one micro-batch, shape (D,), and the two ends of the model."""

    forward_s: Floats
    backward_s: Floats
    """Without recomputation."""
    weight_s: Floats
    """Weight gradients that the schedule runs apart; else 0 and part of `backward_s`."""
    again_s: Floats
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


@dataclass(frozen=True, slots=True)
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
    """Of them, how many recompute (the first ones)."""
    bound_s: float
    """No step with this partition is shorter."""
    again_s: float
    """Recomputation on a micro-batch's way through all stages."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """All ranges that one stage could get: row j, column n is layers j − n to j; infinite where there is none."""

    bound_s: Floats
    bytes: Floats
    again: Ints
    """Layers that recompute."""
    again_s: Floats
    own_s: Floats


class Cuts:
    """Ranges of one model under one schedule."""

    def __init__(
        self, depth: Depth, pipe: Pipeline, capacity_bytes: float, *, again: int | None,
        over_bytes: Floats | None = None, tails_s: Floats | None = None, most: int | None = None,
    ) -> None:  # fmt: skip
        """Sums over ranges.

        Args:
            depth: The layers.
            pipe: The schedule.
            capacity_bytes: Of one device.
            again: Layers of a stage that recompute; None for as many as memory asks for.
            over_bytes: (S,) what a stage holds beyond layers and ends.
            tails_s: (3, D + 1, D + 1) what follows the last backward of a first, middle or last stage with layers i
                to j.
            most: Longest range that is looked at; None for all.
        """
        self.depth, self.pipe, self.capacity, self.fixed = depth, pipe, capacity_bytes, again
        self.over = np.zeros(len(pipe)) if over_bytes is None else over_bytes
        self.tails = tails_s
        d = len(depth)
        self.most = d if most is None else min(most, d)
        j, n = np.meshgrid(np.arange(d + 1), np.arange(self.most + 1), indexing="ij")
        self.j, self.n, self.i = j, n, np.maximum(j - n, 0)
        self.real = n <= j
        self.sums = {
            name: np.concatenate([[0.0], np.cumsum(getattr(depth, name))])
            for name in ("forward_s", "backward_s", "weight_s", "again_s", "kept_bytes", "saved_bytes", "static_bytes")
        }

    def _over(self, name: str) -> Floats:
        total = self.sums[name]
        return np.asarray(total[self.j] - total[self.i])

    def ranges(self, s: int) -> Ranges:
        """Every range on stage s."""
        x, pipe = self.depth, self.pipe
        first, last = s == 0, s == len(pipe) - 1
        ends = x.ends_s[:, 0] * first + x.ends_s[:, 1] * last
        at_ends = x.ends_bytes[0] * first + x.ends_bytes[1] * last
        live = float(pipe.live[s])
        plain = self._over("static_bytes") + at_ends + self.over[s] + live * self._over("kept_bytes")
        saved = self.sums["saved_bytes"]
        if self.fixed is None:
            need = (plain - self.capacity) / max(live, 1e-30)
            reach = np.searchsorted(saved, (saved[self.i] + need).reshape(-1)).reshape(need.shape)
            again = np.clip(reach - self.i, 0, self.n)
        else:
            again = np.minimum(self.n, self.fixed)
        size = plain - live * (saved[self.i + again] - saved[self.i])
        extra = self.sums["again_s"][self.i + again] - self.sums["again_s"][self.i]
        forward = self._over("forward_s") + ends[0]
        backward = self._over("backward_s") + ends[1] + extra
        weight = self._over("weight_s") + ends[2]
        bound = self._bound(s, forward, backward, weight, extra)
        if self.tails is not None:
            bound = bound + self.tails[0 if first else 2 if last else 1][self.i, self.j]
        bound = np.where(self.real & (size <= self.capacity * (1 + _ROUNDING)), bound, np.inf)
        if not first:  # a stage without layers is an end of the model
            bound[:, 0] = bound[:, 0] if last else np.inf
        return Ranges(bound, np.where(self.real, size, np.inf), again, extra, forward + backward + weight)

    def _bound(self, s: int, forward: Floats, backward: Floats, weight: Floats, extra: Floats) -> Floats:
        x, pipe = self.depth, self.pipe
        m, warm, between = pipe.m, int(pipe.warm[s]), int(pipe.between[s])
        down = float(pipe.travel_s[s])
        whole = float(self.sums["forward_s"][-1] + self.sums["backward_s"][-1] + x.ends_s[:2].sum())
        whole += 2.0 * float(pipe.travel_s[-1])
        above_f = np.where(s > 0, self.sums["forward_s"][self.i] + x.ends_s[0, 0], 0.0)
        above_b = np.where(s > 0, self.sums["backward_s"][self.i] + x.ends_s[1, 0], 0.0)
        # a blocking hop is part of a stage and of the way: counted once
        sends = float(pipe.sends_s[s])
        twice = float(np.diff(pipe.travel_s).max(initial=0.0)) if pipe.sends_s.any() else 0.0
        fill, drain = above_f + down, above_b + down - twice
        passes = forward + backward + sends
        finish = fill + m * (passes + weight)
        own = np.maximum(finish, (fill + m * passes if pipe.split else finish) + drain)
        back = whole + extra + (m - 1) * backward + (m - warm) * forward
        found = np.maximum(own, back)
        below = whole - above_f - above_b - backward - 2.0 * down + extra  # the forward here, and all passes below
        if between > 0:
            again = whole + extra + below + between * backward + (m - 1 - warm) * forward
        else:
            again = fill + (m - 1) * forward + below + backward + above_b + down
        # the micro-batch whose forward is last
        return np.asarray(np.maximum(found, again))


def even_layers(depth: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage when only their number counts, the remainder in the middle."""
    base, extra = divmod(depth, stages)
    start = (stages - extra) // 2
    return tuple(base + (start <= s < start + extra) for s in range(stages))


def _along(cuts: Cuts, layers: tuple[int, ...]) -> tuple[float, list[int], float]:
    """Bound, recomputed layers and their seconds of one partition."""
    at, bound, counts, extra = 0, 0.0, [], 0.0
    for s, n in enumerate(layers):
        at += n
        found = cuts.ranges(s)
        bound = max(bound, float(found.bound_s[at, n]))
        counts.append(int(found.again[at, n]))
        extra += float(found.again_s[at, n])
    return bound, counts, extra


def partition(
    depth: Depth, pipe: Pipeline, capacity_bytes: float, *, again: int | None, layers: tuple[int, ...] | None = None,
    over_bytes: Floats | None = None, tails_s: Floats | None = None,
) -> Partition | None:  # fmt: skip
    """The partition with the smallest bound that fits; None where none does.

    Args:
        depth: The layers.
        pipe: The schedule.
        capacity_bytes: Of one device.
        again: Layers of a stage that recompute; None for as many as memory asks for.
        layers: A partition to keep: only recomputation is chosen.
        over_bytes: (S,) what a stage holds beyond layers and ends.
        tails_s: See `Cuts`.
    """
    stages = len(pipe)
    given = layers or even_layers(len(depth), stages)
    cuts = Cuts(depth, pipe, capacity_bytes, again=again, over_bytes=over_bytes, tails_s=tails_s, most=max(given))
    bound, counts, extra = _along(cuts, given)
    if layers is not None:
        return Partition(layers, tuple(counts), bound, extra) if np.isfinite(bound) else None
    return _best(depth, pipe, capacity_bytes, again, over_bytes, tails_s, bound)


def _best(
    depth: Depth, pipe: Pipeline, capacity_bytes: float, again: int | None, over_bytes: Floats | None,
    tails_s: Floats | None, known_s: float,
) -> Partition | None:  # fmt: skip
    stages, d = len(pipe), len(depth)
    # no stage of a better partition is longer than this many of the shortest layers
    shortest = float((depth.forward_s + depth.backward_s + depth.weight_s).min())
    most = int(min(known_s * (1 + _ROUNDING) / max(pipe.m * shortest, 1e-30), d))
    cuts = Cuts(depth, pipe, capacity_bytes, again=again, over_bytes=over_bytes, tails_s=tails_s, most=most)
    found = [cuts.ranges(s) for s in range(stages)]
    start = np.full(d + 1, np.inf)
    start[0] = 0.0
    best = start
    for one in found:
        best = np.where(cuts.real, np.maximum(best[cuts.i], one.bound_s), np.inf).min(axis=1)
    bound = float(best[-1])
    if not np.isfinite(bound):
        return None
    # among partitions within the bound: least recomputation on the way, then even stages
    scale = max(float((depth.forward_s + depth.backward_s).sum()), 1e-30)
    total, choice = start, []
    for one in found:
        score = one.again_s + _ROUNDING * one.own_s**2 / scale
        score = np.where(one.bound_s <= bound * (1 + _ROUNDING), score, np.inf)
        sums = np.where(cuts.real, total[cuts.i] + score, np.inf)
        choice.append(np.argmin(sums, axis=1))
        total = sums.min(axis=1)
    at, layers, counts, extra = d, [], [], 0.0
    for one, chosen in zip(reversed(found), reversed(choice), strict=True):
        n = int(chosen[at])
        layers.append(n)
        counts.append(int(one.again[at, n]))
        extra += float(one.again_s[at, n])
        at -= n
    return Partition(tuple(reversed(layers)), tuple(reversed(counts)), bound, extra)


def least_bytes(
    depth: Depth, pipe: Pipeline, *, again: int | None, layers: tuple[int, ...] | None = None,
) -> float:  # fmt: skip
    """Memory of the fullest stage that every partition needs; where recomputation is free, with all of it."""
    fixed = len(depth) if again is None else again
    cuts = Cuts(depth, pipe, np.inf, again=fixed)
    best = np.full(len(depth) + 1, np.inf)
    best[0] = 0.0
    at = 0
    for s in range(len(pipe)):
        size = cuts.ranges(s).bytes
        if layers is not None:
            at += layers[s]
            best[0] = max(float(best[0]), float(size[at, layers[s]]))
        else:
            best = np.where(cuts.real, np.maximum(best[cuts.i], size), np.inf).min(axis=1)
    return float(best[0] if layers is not None else best[-1])
