"""One forward pass without padding, and pipelines whose stages do not wait for each other."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
PCIE: Values = {"id": "pcie", "bytes_per_s": 25e9, "latency_s": "2.5 us", "topology": "host", "family": "pcie4"}
"""Between pairs: one PCIe 4.0 x16 port, as NCCL reaches it."""
SEED = 5


def scenario(tokens: int, batch: int, link: str, *, tp: int = 1, layers: int | None = None) -> Values:
    """A batch of prompts of so many tokens, all at once, one forward pass."""
    each = max(tokens // batch, 1)
    return {
        "model": {
            "family": "dense",
            "name": "GPT-3 width",
            "hidden_size": fixed("hidden_size"),
            "num_attention_heads": fixed("heads"),
            "num_hidden_layers": layers or fixed("layers"),
            "intermediate_size": 4 * fixed("hidden_size"),
            "vocab_size": 51200,
            "gated_mlp": False,
            "hidden_act": "gelu",
            "norm": "layernorm",
            "attention_bias": True,
            "mlp_bias": True,
            "position_embedding": "learned",
            "max_position_embeddings": 2048,
        },
        "cluster": {
            "device": "a100-sxm-80gb",
            "nodes": 1,
            "devices_per_node": 8,
            **({"scale_up": PCIE} if link == "pcie" and tp > 2 else {}),
        },
        "serving": {
            "engine": "trtllm",
            "engine_version": fixed("engine_version"),
            "pools": [{"plan": {"tp": tp}, "limits": {"max_num_seqs": batch, "max_num_batched_tokens": 8192}}],
            "traffic": {"offline": True, "num_requests": batch, "input_tokens": each, "output_tokens": 1},
        },
    }


def pass_s(tokens: int, batch: int, link: str, **cut: Any) -> float:
    """Seconds of a forward pass."""
    return served(scenario(tokens, batch, link, **cut)).iterations["mean_s"]


def reduction(values: Values) -> float:
    """1 − latency without padding over latency with it, best of the tensor sizes."""
    batch, whole = values["batch"], values["batch"] * values["padded"]
    real = round(whole * values["real_share"])
    return max(
        1.0 - pass_s(real, batch, values["link"], tp=tp) / pass_s(whole, batch, values["link"], tp=tp)
        for tp in fixed("tp")
    )


@lru_cache(maxsize=64)
def _line(tokens: int, batch: int, layers: int) -> tuple[float, float]:
    """(a, b) of a stage's a + b · tokens around a batch."""
    low, high = max(tokens // 2, batch), tokens + tokens // 2
    t0, t1 = pass_s(low, batch, "nvlink3", layers=layers), pass_s(high, batch, "nvlink3", layers=layers)
    slope = (t1 - t0) / (high - low)
    return t0 - slope * low, slope


def finish(stage_s: Any, send_s: Any, stages: int, *, meets: bool) -> float:
    """When the last of B batches leaves a pipeline of equal stages.

    Args:
        stage_s: (B,) seconds of a stage.
        send_s: (B,) seconds of a hop.
        stages: how many.
        meets: a stage that is done waits until the next is free and the hop is over; otherwise it goes on at once.
    """
    free = np.zeros(stages)
    for stage, send in zip(stage_s, send_s, strict=True):
        ready = 0.0
        for k in range(stages):
            begin = max(ready, free[k])
            end = begin + stage
            if k + 1 < stages:
                if meets:
                    ready = max(end, free[k + 1]) + send
                    free[k] = ready
                else:
                    ready, free[k] = end + send, end
            else:
                free[k] = end
    return float(free[-1])


def pipeline(values: Values, *, even: bool = False) -> float:
    """Throughput of a pipeline that does not wait over one whose stages meet, less 1; best of the sizes."""
    batch, padded = values["batch"], values["padded"]
    mean = batch * padded * values["real_share"]
    rng = np.random.default_rng(SEED)
    width = min(values["real_share"], 1.0 - values["real_share"])
    shares = rng.uniform(values["real_share"] - width, values["real_share"] + width, (fixed("batches"), batch))
    tokens = np.full(fixed("batches"), mean) if even else np.maximum(shares * padded, 1.0).sum(axis=1)
    gains = []
    for stages in fixed("pp"):
        a, b = _line(round(mean), batch, fixed("layers") // stages)
        stage_s = a + b * tokens
        send_s = tokens * fixed("hidden_size") * 2.0 / PCIE["bytes_per_s"]
        meets, free = (finish(stage_s, send_s, stages, meets=on) for on in (True, False))
        gains.append(meets / free - 1.0)
    return max(gains)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "tensor-parallel": reduction,
        "pipeline": pipeline,
        "pipeline-even": lambda v: pipeline(v, even=True),
    }
