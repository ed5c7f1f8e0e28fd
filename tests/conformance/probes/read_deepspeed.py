"""Runs under a DeepSpeed release: its `DeepSpeedConfig` reads JSON files. Prints one JSON list, a mapping a case."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from typing import Any

logging.disable(logging.CRITICAL)
with contextlib.redirect_stdout(sys.stderr):
    from deepspeed.runtime import config

    config.dist.get_rank = lambda *_: 0


class _Grid:
    """What a model-parallel unit answers: how many replicas share the batch."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas

    def get_data_parallel_world_size(self) -> int:
        """Replicas."""
        return self.replicas


def read(case: dict[str, Any]) -> dict[str, Any]:
    """The configuration of one file, or why it is refused."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = config.DeepSpeedConfig(case["file"], mpu=_Grid(case["replicas"]))
    except (Exception, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    zero = found.zero_config
    return {
        "error": None,
        "read": {
            "train_batch_size": found.train_batch_size,
            "train_micro_batch_size_per_gpu": found.train_micro_batch_size_per_gpu,
            "gradient_accumulation_steps": found.gradient_accumulation_steps,
            "stage": int(zero.stage),
            "overlap_comm": zero.overlap_comm,
            "offload_optimizer": zero.offload_optimizer and str(zero.offload_optimizer.device),
            "offload_param": zero.offload_param and str(zero.offload_param.device),
            "bf16": bool(found.bfloat16_config.enabled),
            "autotp_size": found.tensor_parallel_config.autotp_size,
            "cpu_checkpointing": found.activation_checkpointing_config.cpu_checkpointing,
        },
    }


with open(sys.argv[1], encoding="utf-8") as file:
    cases = json.load(file)
print(json.dumps([read(case) for case in cases]))
