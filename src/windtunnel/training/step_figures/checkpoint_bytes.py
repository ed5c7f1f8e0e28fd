"""Bytes of a checkpoint of a training step's state: weights and optimizer state, each shard once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.training.memory.static_memory import bytes_per_parameter

if TYPE_CHECKING:
    from windtunnel.training.step_setup import PreparedStep


@dataclass(frozen=True, slots=True)
class CheckpointBytes:
    """One checkpoint."""

    total: float
    """Bytes of the whole state, written once."""
    largest_shard: float
    """Bytes that the rank with most to write has, where every rank writes its part."""
    largest_of_first_replica: float
    """Bytes that it has where the ranks of the first data-parallel replica write everything."""
    largest_held: float
    """Bytes that the rank with most holds: weights that its replicas hold too, and its part of the optimizer state."""


def checkpoint_bytes(step: PreparedStep) -> CheckpointBytes:
    """Bytes of a checkpoint, and of its largest writers.

    Weights that are their own master copy (FSDP) count once; adapters are saved without the frozen weights.

    Args:
        step: The step whose state is saved; of unlike groups the first.

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), section 3.1, for what a mixed-precision optimizer keeps.
    """
    x = step.members[0]
    costs, plan = x.stages, x.plan
    width = bytes_per_parameter(costs, x.training, x.behaviour, plan.zero)
    element = costs.trainable_share if x.training.phase == "lora" else 1.0
    each = width.weight * element + width.state
    stage_of = x.schedule.placement[:, 0]
    dense = np.bincount(stage_of, weights=costs.dense_params, minlength=plan.pp) / plan.copies
    expert = np.bincount(stage_of, weights=costs.expert_params, minlength=plan.pp) / plan.copies
    total = each * float((dense * plan.tp + expert * plan.ep * plan.etp).sum())
    replicas, expert_replicas = max(plan.dp * plan.cp, 1), max(plan.expert_dp, 1)
    return CheckpointBytes(
        total=total,
        largest_shard=each * float((dense / replicas + expert / expert_replicas).max()),
        largest_of_first_replica=each * float((dense + expert).max()),
        largest_held=_largest_held(step, width.weight * element, width.state, (dense, expert)),
    )


def _largest_held(step: PreparedStep, weight: float, state: float, params: tuple[Floats, Floats]) -> float:
    """Bytes of weights and optimizer state that the fullest rank holds.

    Args:
        step: The step.
        weight: Bytes of a parameter's weight.
        state: Of its optimizer state.
        params: Parameters of a rank of each stage, those of all experts apart; shape (stages,) each.
    """
    plan = step.members[0].plan
    held = np.zeros(plan.pp)
    for count, replicas in zip(params, (max(plan.dp * plan.cp, 1), max(plan.expert_dp, 1)), strict=True):
        shards = min(plan.shard_group or replicas, replicas)
        held += count * (weight / (shards if plan.zero == 3 else 1) + state / (shards if plan.zero else 1))
    return float(held.max())
