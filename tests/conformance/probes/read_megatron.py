"""Runs under a Megatron-Core release: its parser, its checks and its model configuration read command lines.

What a device would answer is stood in for: Transformer Engine's version and its fused rotary kernel, Triton (its
kernels are not run), compute capability 9.0, eight devices a node. Prints one JSON list, a mapping a case: `error` or
the arguments as parsed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import typing
from typing import Any

import stand_ins
import torch
import typing_extensions
from packaging.version import Version

stand_ins.install("triton", "triton.language")
if not hasattr(typing, "override"):  # Python 3.12's
    typing.override = typing_extensions.override


class _Device:
    major, minor, name, multi_processor_count, total_memory = 9, 0, "stand-in", 132, 80 << 30


torch.cuda.get_device_capability = lambda *_: (9, 0)
torch.cuda.device_count = lambda: 8
torch.cuda.get_device_properties = lambda *_: _Device

with contextlib.redirect_stdout(sys.stderr):
    import megatron.core.utils

    megatron.core.utils.get_te_version = lambda: Version("2.10.0")
    from megatron.core.models.common.embeddings import rope_utils

    for kernel in ("fused_apply_rotary_pos_emb", "fused_apply_rotary_pos_emb_thd"):
        if getattr(rope_utils, kernel, None) is None:
            setattr(rope_utils, kernel, lambda *_, **__: None)
    from megatron.training import arguments


def read(case: dict[str, Any]) -> dict[str, Any]:
    """The arguments of one command line, or why they are refused."""
    for name in ("CUDA_DEVICE_MAX_CONNECTIONS", "PYTORCH_CUDA_ALLOC_CONF", "NVTE_CPU_OFFLOAD_V1"):
        os.environ.pop(name, None)
    os.environ |= case["environment"] | {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(case["world_size"])}
    sys.argv = ["pretrain_gpt.py", *case["arguments"]]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            given = arguments.parse_args()
            given = arguments.validate_args(given) or given
            arguments.core_transformer_config_from_args(given)
    except (Exception, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    plain = {k: v for k, v in vars(given).items() if isinstance(v, bool | int | float | str | None)}
    return {"error": None, "read": plain}


with open(sys.argv[1], encoding="utf-8") as file:
    cases = json.load(file)
print(json.dumps([read(case) for case in cases]))
