"""Which coefficients of a server a fit may move: how far from their priors, and up to which roof."""

from __future__ import annotations

import math

PROMPT_LAYER_MOST_S = 0.56e-3
"""Most that launching a dense layer's kernels one by one takes the host: what rows tell beyond is waiting.

Source: 82.6 ms for a one-token prompt of DeepSeek-V3 under SGLang without captured graphs
(github.com/sgl-project/sglang, pull request 12160), 224 dense layers' worth of launches: 0.37 ms; 16.4 ms for Qwen3-4B,
29.5 of them: 0.56 ms (github.com/wejoncy/sfllm, pull request 46).
"""
PRIORS: dict[str, tuple[float, float]] = {
    "weight_bytes_fraction": (0.07, 0.95),
    "matrix_fraction.bf16": (0.12, 0.97),
    "matrix_fraction.fp8": (0.15, 0.97),
    "matrix_fraction.fp8_block": (0.15, 0.97),
    "matrix_fraction.fp4": (0.2, 0.97),
    "prefill_attention_fraction": (0.2, 0.9),
    "decode_kv_fraction": (0.15, 0.95),
    "expert_bytes_fraction.bf16": (0.3, 0.95),
    "expert_bytes_fraction.fp8": (0.3, 0.95),
    "expert_bytes_fraction.fp4": (0.3, 0.95),
    "expert_bytes_fraction.int4": (0.3, 0.95),
    "expert_matrix_fraction.bf16": (0.2, 1.0),
    "expert_matrix_fraction.fp8": (0.2, 1.0),
    "expert_matrix_fraction.fp8_block": (0.2, 1.0),
    "expert_matrix_fraction.fp4": (0.2, 1.0),
    "layer_s": (0.3, math.inf),
    "prompt_layer_s": (0.6, PROMPT_LAYER_MOST_S),
    "launch_layer_s": (0.4, math.inf),
    "quantise_layer_s": (0.3, math.inf),
    "all_reduce_s": (0.3, math.inf),
    "all_reduce_fraction": (0.4, 0.95),
    "all_to_all_s": (0.5, math.inf),
    "all_to_all_fraction": (0.3, 0.95),
    "host_s": (0.4, math.inf),
    "sequence_s": (0.4, math.inf),
    "stream_s": (1.0, math.inf),
    "request_s": (0.5, math.inf),
    "vector_attention_fraction": (0.3, 0.9),
    "memory_fraction": (0.4, 0.95),
}
"""Coefficient → (standard deviation of the prior's logarithm, largest value: never faster than the roofline)."""
NETWORK: dict[str, tuple[float, float]] = {"efficiency": (0.15, 1.0), "hop_scale": (0.3, math.inf)}
"""The same for the library's collectives inside a domain, which large sums take (`profile.network`): as wide as
`logs_fit.SPREAD` has them between machines of one kind, and as the latency of the engine's own sums."""
FRONT_END: dict[str, tuple[float, float]] = {"front_end": (0.4, math.inf)}
"""The same for the rate of the server's process, as wide as the host's seconds."""
