"""A frozen reference model beside the one that is trained: one more forward pass of every micro-batch.

Direct preference optimisation needs the reference's log-probabilities of both answers. The pass keeps nothing for
backward. Under sharded parameters its gathers are counted with the policy's: they are not gathered a second time here.
Source: Rafailov et al. 2023 (arXiv 2305.18290), equation 7; TRL `DPOTrainer` (adapters off, or a second model).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.program.comm_work import CommWork
from windtunnel.training.stage_costs.stage_costs import StageCosts

FORWARD_SHARE = 1.0 / 3.0
"""Forward's share of what a model computes in a step."""


def with_reference(stages: StageCosts, tokens: float) -> StageCosts:
    """Virtual stages whose forward runs twice: of the model that is trained, and of its reference.

    Args:
        stages: Virtual stages of the step without a reference.
        tokens: Number of tokens of one micro-batch.
    """

    def twice(column: Floats) -> Floats:
        passes = np.ones(len(column))
        passes[0] = 2.0
        return np.asarray(column * passes.reshape((-1,) + (1,) * (column.ndim - 1)), np.float64)

    forward = [{name: 2.0 * value for name, value in own.items()} for own in stages.busy_s[0]]
    return replace(
        stages,
        work=CommWork(*(twice(column) for column in stages.work.columns)),
        head_s=twice(stages.head_s),
        embedding_s=twice(stages.embedding_s),
        busy_s=[forward, *stages.busy_s[1:]],
        hardware_flop=stages.hardware_flop + FORWARD_SHARE * stages.graph.model_flop_per_token * tokens,
    )
