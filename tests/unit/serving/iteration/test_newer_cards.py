"""No newer card is slower than the older one of its line in the same format, engine by engine."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from windtunnel.errors import WindtunnelError
from windtunnel.serving.deployment import prepare

LINES = (
    ("a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "b300-sxm-270gb"),
    ("gh200", "gb200", "gb300"),
    ("mi300x", "mi325x", "mi355x"),
    ("rtx-3090", "rtx-4090", "rtx-5090"),
)
MODELS = (("meta-llama/Llama-3.1-8B", 1), ("meta-llama/Llama-3.1-70B", 4), ("Qwen/Qwen3-235B-A22B", 8))
ENGINES = {"vllm": "0.14.0", "sglang": "0.5.6", "trtllm": "1.2.0", "lmdeploy": "0.10.0"}
FORMATS = ("bf16", "fp8", "fp8_block", "w4a16", "nvfp4", "mxfp4")
NARROW = ("fp8", "fp8_block", "nvfp4", "mxfp4")
CASTS = 1.15
"""A card with units for 8 or 4 bits casts activations, in kernels that older cards do not have: what one sequence may
lose."""
NOT_THERE = {("lmdeploy", "nvfp4"), ("lmdeploy", "mxfp4")}
"""Formats that an engine has no kernels of its own for."""


@cache
def seconds(engine: str, device: str, model: str, tp: int, fmt: str) -> dict[tuple[str, int, int], float] | None:
    """Decode steps and one prompt of 8k tokens; None where the engine does not run there."""
    pool = {
        "plan": {"tp": tp},
        "limits": {"max_num_seqs": 256, "max_num_batched_tokens": 8192, "max_model_len": 8192},
        "kv": {"num_blocks": 100000},
    }
    scenario = {
        "model": model,
        "cluster": {"device": device, "nodes": 1, "devices_per_node": tp},
        "serving": {
            "engine": engine,
            "engine_version": ENGINES[engine],
            "precision": {"weights": fmt},
            "pools": [pool],
            "traffic": {"rate_per_s": 1, "input_tokens": 1000, "output_tokens": 100, "num_requests": 1},
        },
    }
    try:
        step = prepare(scenario).iteration
    except WindtunnelError:
        return None
    out = {
        ("decode", batch, cached): float(
            step.seconds(
                tokens=float(batch), sequences=float(batch), kv=float(batch * cached), pairs=0.0, prompt_tokens=0.0
            )
        )
        for batch in (1, 32, 256)
        for cached in (1000, 8000)
    }
    whole = {"tokens": 8000.0, "sequences": 1.0, "kv": 0.0, "pairs": 3.2e7, "prompt_tokens": 8000.0}
    return out | {("prompt", 1, 8000): float(step.seconds(**whole))}


@pytest.mark.parametrize(("engine", "fmt"), sorted({(e, f) for e in ENGINES for f in FORMATS} - NOT_THERE))
def test_newer_cards_are_not_slower(engine: str, fmt: str) -> None:
    slower = {}
    compared = 0
    for model, tp in MODELS:
        for line in LINES:
            known = [(d, s) for d in line if (s := seconds(engine, d, model, tp, fmt)) is not None]
            for (old, before), (new, now) in pairwise(known):
                for load, value in now.items():
                    compared += 1
                    limit = CASTS if fmt in NARROW and load[1] == 1 else 1.04
                    if value > limit * before[load]:
                        slower[model, old, new, load] = value / before[load]
    assert slower == {}
    assert compared > 0
