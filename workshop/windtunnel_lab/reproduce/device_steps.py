"""Seconds, bytes and FLOP of single steps of a model on one device, for claims that add steps up themselves."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from windtunnel.graph import Batch, Kind, build, forward_flop
from windtunnel.serving.deployment import Deployment, prepare
from windtunnel.serving.kv_capacity import KvCapacity

Model = str | dict[str, Any]
"""A catalogue name or the fields of a model."""


@lru_cache(maxsize=128)
def _deployed(text: str) -> Deployment:
    return prepare(json.loads(text))


def deployed(model: Model, device: str) -> Deployment:
    """A model on one device of a server, half precision, defaults of a vLLM release."""
    scenario = {
        "model": model,
        "cluster": {"device": device, "nodes": 1, "devices_per_node": 1},
        "serving": {
            "engine": "vllm",
            "engine_version": "0.8.5",
            "pools": [{"plan": {"tp": 1}}],
            "traffic": {"offline": True, "num_requests": 1, "input_tokens": 1, "output_tokens": 1},
        },
    }
    return _deployed(json.dumps(scenario, sort_keys=True))


def decode_s(model: Model, device: str, sequences: float, context: float) -> float:
    """Seconds of a step that writes one token in each of so many sequences of a context."""
    iteration = deployed(model, device).iteration
    return iteration.seconds(sequences, kv=sequences * context, sequences=sequences)


def prompt_s(model: Model, device: str, tokens: float, sequences: float = 1.0) -> float:
    """Seconds of reading so many prompts of a length at once."""
    rows = sequences * tokens
    iteration = deployed(model, device).iteration
    return iteration.seconds(rows, pairs=rows * tokens / 2.0, prompt_tokens=rows, sequences=sequences)


def answer_s(model: Model, device: str, prompt: float, written: float, sequences: float = 1.0) -> float:
    """Seconds of so many answers side by side: prompts, then one step a token at the mean context."""
    steps = written * decode_s(model, device, sequences, prompt + written / 2.0)
    return prompt_s(model, device, prompt, sequences) + steps


def capacity(model: Model, device: str) -> KvCapacity:
    """Bytes of weights and of the cache."""
    return deployed(model, device).instance.capacity


def token_flop(model: Model, device: str) -> tuple[float, float]:
    """FLOP of a token without attention's products, and of one query against one cached token, from the graph."""
    batch = Batch(tokens=1.0, sequences=1.0, seq_len=1.0, pairs=1.0, full_pairs=1.0, logits_rows=1.0, training=False)
    graph = build(deployed(model, device).model, batch)
    linear = attention = 0.0
    for block in (*(graph.blocks[kind] for kind in graph.depth), graph.head):
        for op in block.operators:
            if op.kind == Kind.ATTENTION:
                attention += forward_flop(op)
            elif op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
                linear += forward_flop(op)
    return linear, attention
