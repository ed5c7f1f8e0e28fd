"""Forward passes without backward next to every micro-batch: a frozen reference model, or answers of other prompts.

Direct preference optimisation needs the reference's log-probabilities of both answers: one pass. KTO needs those of the
answers, and of mismatched ones under both models: three. The passes keep nothing for backward. Under sharded parameters
their gathers are counted with the policy's: they are not gathered a second time here.

Source: Rafailov et al. 2023 (arXiv 2305.18290), equation 7; Ethayarajh et al. 2024 (arXiv 2402.01306), section 4; TRL
`DPOTrainer` and `KTOTrainer` (adapters off, or a second model).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.program.comm_work import CommWork
from windtunnel.training.stage_costs.stage_costs import StageCosts

FORWARD_SHARE = 1.0 / 3.0
"""Forward's share of what a model computes in a step."""


def with_reference(stages: StageCosts, tokens: float, passes: int) -> StageCosts:
    """Virtual stages whose forward runs so many times more.

    Args:
        stages: Virtual stages of the step without a reference.
        tokens: Number of tokens of one micro-batch.
        passes: Number of passes next to the one that backward follows.
    """
    runs = 1.0 + passes

    def repeated(column: Floats) -> Floats:
        times = np.ones(len(column))
        times[0] = runs
        return np.asarray(column * times.reshape((-1,) + (1,) * (column.ndim - 1)), np.float64)

    forward = [{name: runs * value for name, value in own.items()} for own in stages.busy_s[0]]
    return replace(
        stages,
        work=CommWork(*(repeated(column) for column in stages.work.columns)),
        head_s=repeated(stages.head_s),
        embedding_s=repeated(stages.embedding_s),
        busy_s=[forward, *stages.busy_s[1:]],
        hardware_flop=stages.hardware_flop + passes * FORWARD_SHARE * stages.graph.model_flop_per_token * tokens,
    )
