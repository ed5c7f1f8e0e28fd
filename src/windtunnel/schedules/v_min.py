"""V-Min: two chunks per stage in a V, spaced for about a third of the activation memory of 1F1B's first stage."""

from __future__ import annotations

from windtunnel.schedules.arrange import unit_costs
from windtunnel.schedules.building_block import LEAST_MEMORY, best_block, v_block
from windtunnel.schedules.spec import ScheduleSpec, needs_two_chunks
from windtunnel.schedules.table import InstructionTable, ScheduleCosts, ScheduleLimits
from windtunnel.schedules.validate import live_activations


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """The repeated block; weight gradients go into gaps as far as the block's own memory (or `limits`) allows."""
    known = costs if costs is not None else unit_costs(p, 2)
    block = v_block(SCHEDULE.id, p, m, LEAST_MEMORY)
    kept = limits.kept_after_backward if limits is not None else 1.0
    given = limits.max_live if limits is not None else None
    return best_block(block, known, live_activations(block, kept) if given is None else given, kept)


SCHEDULE = ScheduleSpec(
    id="v_min",
    title="V-Min",
    source="Qi et al. 2024, Pipeline Parallelism with Controllable Memory, https://arxiv.org/abs/2405.15362",
    construct=construct,
    check=needs_two_chunks("v_min"),
    split_backward=True,
    uses_costs=True,
)
