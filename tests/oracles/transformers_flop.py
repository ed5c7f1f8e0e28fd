"""Matrix FLOPs of one forward pass by PyTorch's counter, for causal-LM types of transformers (extra `oracle`).

Models stand on the meta device at their default dimensions, so that nothing is computed; those whose code reads values
stand on the CPU with two layers. PyTorch counts products alone, and attention over the full square of tokens.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from windtunnel import graph
from windtunnel.graph import Batch, Kind
from windtunnel.specs.model import ModelSpec

TOKENS = 256
SCANS = re.compile("(?i:mamba|delta|lightning|linearattention|mixer|[mx]lstm|kda)(?!.*(DecoderLayer|Block|Model|LM)$)")
"""Classes of modules whose batched products are a scan: written out in Python, they are not those of its kernels."""
FILLED: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "dots1": {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 2},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 8, "moe_topk": 2},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 4, "num_hidden_layers": 16},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 48, "head_dim": 128},
}
"""Fields that the defaults of a type leave out and its code needs."""
SMALL: dict[str, dict[str, Any]] = {
    "jetmoe": {"hidden_size": 256, "intermediate_size": 512, "kv_channels": 32, "num_key_value_heads": 4},
    "longcat_flash": {
        "hidden_size": 256,
        "num_layers": 2,
        "num_hidden_layers": 4,
        "ffn_hidden_size": 512,
        "expert_ffn_hidden_size": 128,
        "n_routed_experts": 8,
        "zero_expert_num": 0,
        "moe_topk": 2,
        "num_attention_heads": 4,
        "kv_lora_rank": 64,
        "q_lora_rank": 64,
        "vocab_size": 1024,
    },
}
"""Dimensions of types that compute on the CPU and are too large for it."""


@dataclass(frozen=True, slots=True)
class Flops:
    """FLOPs of one forward pass over `TOKENS` tokens."""

    products: float
    """Matrix products: with weights, and of attention over the full square."""
    scans: float
    """Products inside chunked scans; a scan channel by channel has none."""


def expected(model: ModelSpec) -> Flops:
    """What the graph of a model has, under PyTorch's convention for attention."""
    n = float(TOKENS)
    batch = Batch(
        tokens=n,
        sequences=1.0,
        seq_len=n,
        pairs=n * n / 2,
        full_pairs=n * n,
        logits_rows=n,
        training=True,
        decoder_tokens=n,
        decoder_seq_len=n,
    )
    made = graph.build(model, batch)
    products = scans = 0.0
    layers = [(made.embedding, 1), (made.head, 1), *((made.blocks[k], c) for k, c in Counter(made.depth).items())]
    for block, count in layers:
        for op in block.operators:
            if op.kind == Kind.ATTENTION:
                products += count * 2 * n * n * op.heads * (op.d_qk + op.d_v)
            elif op.kind == Kind.SCAN and not op.elementwise:
                scans += count * graph.forward_flop(op)
            elif op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
                products += count * graph.forward_flop(op)
    return Flops(products, scans)


def _built(kind: str, *, small: bool) -> tuple[Any, Any]:
    """Configuration and model of a type: on the meta device, or on the CPU with two layers."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    fields = FILLED.get(kind, {}) | (({"num_hidden_layers": 2} | SMALL.get(kind, {})) if small else {})
    config = CONFIG_MAPPING[kind](**fields)
    inner = config.get_text_config(decoder=True)
    for part in (config, inner):
        part.use_cache = False
        part._experts_implementation = "eager" if small else "batched_mm"  # gathered: the shape of routed products
    with torch.device("cpu" if small else "meta"):
        way = "eager" if small else "sdpa"  # the fused kernel of CPUs is not counted
        try:
            model = AutoModelForCausalLM.from_config(config, attn_implementation=way)
        except ValueError:
            model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    if kind == "xmod":
        model.set_default_language(config.languages[0])
    return config, model.eval()


def _inputs(config: Any, model: Any, device: str) -> dict[str, Any]:
    """Tokens, and for decoders with cross attention as many outputs of an encoder."""
    import torch

    out: dict[str, Any] = {"input_ids": torch.zeros(1, TOKENS, dtype=torch.long, device=device)}
    known = inspect.signature(model.forward).parameters
    crosses = any("cross" in name or "encoder_attn" in name for name, _ in model.named_modules())
    inner = config.get_text_config(decoder=True)
    width = getattr(inner, "d_model", None) or inner.hidden_size
    width = getattr(config, "cross_attention_hidden_size", None) or width
    states = torch.zeros(1, TOKENS, width, device=device)
    if crosses and "encoder_hidden_states" in known:
        out["encoder_hidden_states"] = states
    elif crosses and "encoder_outputs" in known:
        out["encoder_outputs"] = (states,)
    return out


def _values_read_as_true() -> contextlib.ExitStack:
    """Checks of masks that read values are left out: there are none on the meta device."""
    from unittest import mock

    import transformers.masking_utils as masks

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(masks, "find_packed_sequence_indices", lambda ids: None))
    if hasattr(masks, "fast_all"):
        stack.enter_context(mock.patch.object(masks, "fast_all", lambda mask: True))
    return stack


def counted(kind: str) -> tuple[dict[str, Any], Flops] | None:
    """Configuration of a type and what PyTorch counts; None where the library cannot build or run it."""
    for small in (False, True):
        try:
            return _counted(kind, small=small)
        except Exception:  # a type whose code reads values is built small; one that fails there has nothing to compare
            continue
    return None


def _counted(kind: str, *, small: bool) -> tuple[dict[str, Any], Flops]:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    config, model = _built(kind, small=small)
    names = {f"{type(model).__name__}.{n}" for n, m in model.named_modules() if n and SCANS.search(type(m).__name__)}
    outer = {name for name in names if not any(name.startswith(f"{other}.") for other in names)}
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), _values_read_as_true(), counter:
        model(**_inputs(config, model, "cpu" if small else "meta"))
    found = counter.get_flop_counts()
    total = float(sum(found["Global"].values()))
    batched = sum(n for name in outer for op, n in found.get(name, {}).items() if str(op).endswith(".bmm"))
    convolved = sum(n for op, n in found["Global"].items() if "convolution" in str(op))
    return json.loads(config.to_json_string(use_diff=False)), Flops(total - batched - convolved, float(batched))
