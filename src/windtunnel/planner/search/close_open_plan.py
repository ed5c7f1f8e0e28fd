"""The plan that an open candidate becomes: the partition, corrected by what the simulator says stages hold and take.

The partition adds up what layers keep after their forward; a stage also holds workspaces, buffers, gradients that
appear late and what an allocator cannot reuse. Both are compared stage by stage in the tensor trace: what a stage holds
beyond the sum is kept free for it, and the layers are cut again. With the layers fixed, the counts of recomputed layers
move one by one until each stage fits and none could do with less. Of the plans that fit, the even split among them
where that is legal, the simulated step time decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput
from windtunnel.planner.bounds.open_candidates import OpenCandidates
from windtunnel.planner.bounds.stage_partition import Cut, partition, stage_bytes
from windtunnel.planner.bounds.virtual_stages import Chunks, given, splits
from windtunnel.planner.case import Case
from windtunnel.specs.plan import PlanSpec
from windtunnel.training.memory.memory_inputs import MemoryInputs
from windtunnel.training.memory.reserved_memory import reserved_memory
from windtunnel.training.memory.static_memory import static_memory
from windtunnel.training.prepare_step import prepare
from windtunnel.training.simulate_step import step_time
from windtunnel.training.step_setup import ResolvedStep, StepRequest, resolve_step, table_of

_ROUNDS = 4
"""How often layers are cut again with corrected memory; the correction hardly depends on the cut."""
_STEPS = 12
"""How often counts of recomputed layers are moved."""

Choice = tuple[tuple[int, ...], tuple[int, ...]]
"""Layers of each virtual stage, and how many of each stage's recompute."""


class ClosedPlans:
    """Plans of the open candidates of one search space on one cluster."""

    def __init__(self, open_candidates: OpenCandidates) -> None:
        self.open_candidates = open_candidates
        self._plans: dict[tuple[int, int], PlanSpec] = {}
        self._held: dict[tuple[int, int, int, tuple[int, ...], int], float] = {}
        """Layout, policy, stage, its layers (first and number of each part), recomputed ones → bytes reserved."""

    def plan(self, row: int, policy: int) -> PlanSpec:
        """The plan of one candidate, open or not."""
        x = self.open_candidates.candidates
        if not x.policies[policy].is_open:
            return x.plan(row, policy)
        if (row, policy) not in self._plans:
            self._plans[row, policy] = self._decide(row, policy)
        return self._plans[row, policy]

    def _decide(self, row: int, policy: int) -> PlanSpec:
        cut = self.open_candidates.cut(row, policy)
        even = self.open_candidates.candidates.plan(row, policy)
        if cut is None:
            return even
        pinned = self.open_candidates.layers(row, policy)
        found: list[Choice] = []
        parts = self.open_candidates.chunks(row, policy) if self.open_candidates.candidates.vpp[row] > 1 else None
        try:
            if parts is not None:
                found, nearest = self._of_chunks(row, policy, parts, pinned)
            else:
                for layers in (pinned,) if pinned else (None, self.open_candidates.even(row, policy)):
                    found += self._fitting(row, policy, cut, layers)
                best = partition(cut, pinned)
                nearest = None if best is None else (best.layers, best.recompute)
        except BadInput:  # the search meets it again, and says why
            return even
        if not found:  # none fits: the one that comes nearest by the sums
            return even if nearest is None else self._filled(row, policy, nearest)
        plans = [self._filled(row, policy, choice) for choice in dict.fromkeys(found)]
        if len(plans) == 1:
            return plans[0]
        c = self.open_candidates.case

        def seconds(plan: PlanSpec) -> float:
            return step_time(prepare(c.model, c.cluster, c.training, plan, c.techniques, cache=c.cache))

        return min(plans, key=seconds)

    def _fitting(self, row: int, policy: int, cut: Cut, layers: tuple[int, ...] | None) -> list[Choice]:
        """The partition that fits, and earlier ones that also do."""
        room = cut.capacity_bytes
        tried: dict[Choice, bool] = {}
        over = np.zeros(len(cut.pipe))
        for _ in range(_ROUNDS):
            found = partition(replace(cut, over_bytes=over), layers)
            if found is None or (found.layers, found.recompute) in tried:
                break
            choice = found.layers, found.recompute
            held = self._bytes(row, policy, choice)
            tried[choice] = bool((held <= room).all())
            over = held - stage_bytes(cut, *choice)
            if cut.recomputed is None:
                choice = self._settled(row, policy, cut, choice, held)
                tried[choice] = bool((self._bytes(row, policy, choice) <= room).all())
        return [choice for choice, fits in tried.items() if fits]

    def _of_chunks(
        self, row: int, policy: int, x: Chunks, pinned: tuple[int, ...] | None
    ) -> tuple[list[Choice], Choice | None]:
        """Splits over virtual stages that fit; and one that does by the sums alone."""
        nearest: Choice | None = None
        tried: dict[Choice, bool] = {}
        even = self.open_candidates.even(row, policy)
        for layers in (pinned,) if pinned else (*splits(x), *([even] if min(even[1:-1]) > 0 else [])):
            found = given(x, layers)
            if not np.isfinite(found.bound_s):
                continue
            choice = layers, found.recompute
            nearest = nearest or choice
            held = self._bytes(row, policy, choice)
            if x.recomputed is None:
                recomputed = given(x, layers, held - found.bytes)
                choice = self._settled(row, policy, x, (layers, recomputed.recompute), None)
                held = self._bytes(row, policy, choice)
            tried[choice] = bool((held <= x.capacity_bytes).all())
        return [choice for choice, fits in tried.items() if fits], nearest

    def _settled(self, row: int, policy: int, cut: Cut | Chunks, choice: Choice, held: Floats | None) -> Choice:
        """Counts of recomputed layers that fit, none of which could be one less."""
        layers, room = choice[0], cut.capacity_bytes
        most = np.array([sum(n for _, n in parts) for parts in self._parts(row, policy, layers)])
        least = np.zeros(len(most), np.int64)
        counts = np.array(choice[1])
        held = self._bytes(row, policy, choice) if held is None else held
        for _ in range(_STEPS):
            least = np.where(held > room, np.maximum(least, counts + 1), least)
            moved = np.where(held > room, np.minimum(counts + 1, most), np.maximum(counts - 1, least))
            if (moved == counts).all():
                break
            counts = moved
            held = self._bytes(row, policy, (layers, tuple(counts.tolist())))
        return layers, tuple(np.minimum(np.maximum(counts, least), most).tolist())

    def _parts(self, row: int, policy: int, layers: tuple[int, ...]) -> list[list[tuple[int, int]]]:
        """First layer and number of layers of each part of each stage."""
        stage_of = self.open_candidates.stage_of(row, policy)
        out: list[list[tuple[int, int]]] = [[] for _ in range(int(self.open_candidates.candidates.pp[row]))]
        at = 0
        for s, n in zip(stage_of.tolist(), layers, strict=True):
            out[s].append((at, n))
            at += n
        return out

    def _filled(self, row: int, policy: int, choice: Choice) -> PlanSpec:
        x, (layers, counts) = self.open_candidates.candidates, choice
        plan = x.plan(row, policy)
        how = plan.recompute
        if x.policies[policy].balanced_recompute:
            how = how.model_copy(update={"num_layers": None if sum(counts) == sum(layers) else counts})
            if not any(counts):
                how = type(how)()
        even = self.open_candidates.even(row, policy)
        split = plan.stage_layers if layers == even else layers  # written out, the framework's, or the partition's
        return plan.model_copy(update={"stage_layers": split, "recompute": how})

    def _bytes(self, row: int, policy: int, choice: Choice) -> Floats:
        """(S,): what each stage reserves. A stage's trace depends on its own layers alone."""
        parts = [tuple(number for part in own for number in part) for own in self._parts(row, policy, choice[0])]
        keys = [
            (row, policy, s, own, recomputed) for s, (own, recomputed) in enumerate(zip(parts, choice[1], strict=True))
        ]
        missing = [s for s, key in enumerate(keys) if key not in self._held]
        if missing:
            c = self.open_candidates.case
            plan = self._filled(row, policy, choice)
            step = resolve_step(
                StepRequest(
                    model=c.model,
                    cluster=c.cluster,
                    training=c.training,
                    plan=plan,
                    techniques=c.techniques,
                    cache=c.cache,
                )
            )
            for s, held in zip(missing, reserved_by_stage(self.open_candidates.case, step, missing), strict=True):
                self._held[keys[s]] = held
        return np.array([self._held[key] for key in keys])


def reserved_by_stage(case: Case, step: ResolvedStep, stages: Sequence[int]) -> list[float]:
    """What stages of a plan reserve, from the tensor trace."""
    training, capacity, table = case.training, case.cluster.device.memory_bytes, table_of(step)
    static = static_memory(step.stages, step.plan, training, step.behaviour, table.placement[:, 0].astype(np.int64))
    inputs = MemoryInputs(step.stages, step.plan, training, step.behaviour, table)
    return [reserved_memory(inputs, static, stage, capacity).total_bytes for stage in stages]
