"""Steps without backward: two forward passes of moved weights, and an update along the direction they were moved in.

Blocks are moved, run twice, moved back and updated one after the other while their weights are on the device; the
direction is made anew from its seed each time. Source: Malladi et al. 2023 (MeZO, arXiv 2305.17333), algorithm 1; Wang
et al. 2025 (ZO2, arXiv 2503.12668), section 5 (the last step's update when a block comes in, both passes, then out).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import Coefficients
from windtunnel.program.comm_work import CommWork
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.stage_costs.stage_costs import StageCosts

MOVES = 4
"""Passes that read and write every weight of a block: the last update, to one side, to the other, back."""
_AS_BEFORE = 1.0 / 3.0
"""Forward's share of what a model computes in a step."""


def without_backward(
    stages: StageCosts, training: TrainingSpec, cluster: ClusterSpec, coefficients: Coefficients, tokens: float
) -> StageCosts:
    """Virtual stages of a zeroth-order step, which has forward passes alone.

    Args:
        stages: Virtual stages of the step with backward.
        training: Says whether both passes run on one replica, and how many directions an update follows.
        cluster: The cluster, for the memory bandwidth of its device.
        coefficients: Give the share of memory bandwidth that kernels reach.
        tokens: Number of tokens of one micro-batch.
    """
    passes = 1.0 if training.perturbations_apart else 2.0
    per_param = 2.0 * stages.graph.element_bytes * (MOVES + training.directions - 1.0)
    moved = (stages.dense_params + stages.expert_params) * per_param
    seconds = moved / (cluster.device.memory_bytes_per_s * coefficients.memory_fraction)

    def forward_only(column: Floats, extra: Floats | float = 0.0) -> Floats:
        forward = np.zeros_like(column)
        forward[0] = column[0] * passes + extra
        return forward

    busy: list[list[dict[str, float]]] = [[], [], []]
    for k, own in enumerate(stages.busy_s[0]):
        shown = {name: value * passes for name, value in own.items()}
        shown["memory bound"] = shown.get("memory bound", 0.0) + float(seconds[k])
        busy[0].append(shown)
        busy[1].append({})
        busy[2].append({})
    layer = max(sum(cost.kept_bytes.values()) for cost in stages.costs.values())
    transient = np.zeros_like(stages.transient_bytes)
    transient[0] = layer
    return replace(
        stages,
        work=CommWork(
            seconds=forward_only(stages.seconds, seconds),
            scale_up_bytes=forward_only(stages.work.scale_up_bytes),
            scale_out_bytes=forward_only(stages.work.scale_out_bytes),
            sm_seconds=forward_only(stages.work.sm_seconds, seconds),
            hbm_bytes=forward_only(stages.work.hbm_bytes, moved),
        ),
        head_s=forward_only(stages.head_s),
        embedding_s=forward_only(stages.embedding_s),
        busy_s=busy,
        kept_bytes=[{} for _ in stages.kept_bytes],
        transient_bytes=transient,
        trainable_share=0.0,
        hardware_flop=passes * _AS_BEFORE * stages.graph.model_flop_per_token * tokens,
    )
