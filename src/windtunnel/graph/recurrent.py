"""State-space and linear-attention sub-blocks, priced by their chunked algorithms."""

from __future__ import annotations

from windtunnel.graph.attention import Parts, norm_and_residual
from windtunnel.graph.operators import Batch, Kind, Operator, Style, Tensor, linear, pointwise
from windtunnel.specs.model import ModelSpec


def mamba2(model: ModelSpec, batch: Batch, style: Style) -> Parts:
    """Mamba-2 mixer: in-projection, short convolution, chunked state-space scan, gated norm, out-projection.

    FLOPs of the scan per token: intra-chunk scores 2·g·N·c + 2·H·P·c (half by causality), states 4·H·P·N.
    Source: Dao and Gu 2024 (arXiv 2405.21060), section 6.

    Every chunk's state, H·P·N in fp32, goes through memory between the kernels: written per chunk, read and written by
    the pass over chunks, read by the output kernel; backward makes the states again (three passes), does the same for
    their gradients (four) and reads each once more for the gradients of x and B. The fused training path keeps neither
    the convolution's output nor the scan's and repeats both.
    Source: kernels of `mamba_ssm` 2.2, `ops/triton/ssd_combined.py` (`mamba_split_conv1d_scan_combined`).
    """
    t, h = batch.tokens, float(model.hidden_size)
    heads, p, n = float(model.mamba_num_heads), float(model.mamba_head_dim), float(model.ssm_state_size)
    g, c = float(model.n_groups), float(model.chunk_size)
    inner = heads * p
    wide = 2 * inner + 2 * g * n + heads
    conv = inner + 2 * g * n
    scan_flop = t * (c * (g * n + heads * p) + 4 * heads * p * n)
    again = (c * heads * p + 2 * heads * p * n) / (c * (g * n + heads * p) + 4 * heads * p * n)
    states = t / c * heads * p * n * 4
    operators, tensors = norm_and_residual(model, t, style, "attn")
    operators += [
        linear("in_proj", "qkv", "column", m=t, n=wide, k=h, params=h * wide),
        pointwise(
            "conv1d",
            "mamba",
            "features",
            (3 * conv * t * 2, 8 * conv * t * 2),
            (1.0, 2.0),
            params=conv * (model.conv_kernel + 1),
        ),
        Operator(
            name="scan",
            module="mamba",
            kind=Kind.SCAN,
            rule="heads",
            m=t,
            forward_flop=scan_flop,
            backward_flop_ratio=3.0 + again,
            forward_bytes=6 * inner * t * 2 + 4 * states,
            backward_bytes=14 * inner * t * 2 + 9 * states,
            fp32_forward_bytes=4 * states,
            fp32_backward_bytes=9 * states,
            seq_len=batch.seq_len,
            params=3 * heads,
            forward_kernels=5,
            backward_kernels=14,
            heads=heads,
            d_qk=n,
            d_v=p,
        ),
        pointwise("gated_norm", "mamba", "features", (4 * inner * t * 2, 6 * inner * t * 2), (1.0, 2.0), params=inner),
        linear("out_proj", "proj", "row", m=t, n=h, k=inner, params=h * inner),
    ]
    tensors += [
        Tensor("in_proj_out", wide * t, "column", producer="qkv", consumers=("mamba",)),
        Tensor("conv_out", conv * t, "column", producer="mamba", consumers=("mamba",)),
        Tensor("scan_states", t / c * heads * p * n, "heads", 4.0, producer="mamba", consumers=("mamba",)),
        Tensor("scan_out", inner * t, "column", producer="mamba", consumers=("mamba", "proj")),
        Tensor("gated_out", inner * t, "column", producer="mamba", consumers=("proj",)),
    ]
    return Parts(operators, tensors, sum(op.params for op in operators))


def linear_attention(model: ModelSpec, batch: Batch, style: Style) -> Parts:
    """Gated delta-rule linear attention in chunks of 64 (Qwen3-Next).

    FLOPs per token: c·(d_k + d_v)·heads twice (scores and delta rule) and 4·heads·d_k·d_v for the states.
    Source: Yang et al. 2024 (arXiv 2412.06464), section 3.3.
    """
    t, h, c = batch.tokens, float(model.hidden_size), 64.0
    hk, hv = float(model.linear_num_key_heads), float(model.linear_num_value_heads)
    dk, dv = float(model.linear_key_head_dim), float(model.linear_value_head_dim)
    key, value = hk * dk, hv * dv
    wide = 2 * key + 2 * value + 2 * hv
    scan_flop = t * (2 * c * hv * (dk + dv) + 4 * hv * dk * dv)
    operators, tensors = norm_and_residual(model, t, style, "attn")
    operators += [
        linear("in_proj", "qkv", "column", m=t, n=wide, k=h, params=h * wide),
        pointwise(
            "conv1d",
            "mamba",
            "features",
            (3 * (2 * key + value) * t * 2, 5 * (2 * key + value) * t * 2),
            (1.0, 2.0),
            params=(2 * key + value) * model.conv_kernel,
        ),
        Operator(
            name="scan",
            module="mamba",
            kind=Kind.SCAN,
            rule="heads",
            m=t,
            forward_flop=scan_flop,
            forward_bytes=8 * value * t * 2,
            backward_bytes=16 * value * t * 2,
            seq_len=batch.seq_len,
            params=2 * hv,
            forward_kernels=6,
            backward_kernels=10,
            heads=hv,
            d_qk=dk,
            d_v=dv,
        ),
        pointwise("gated_norm", "mamba", "features", (4 * value * t * 2, 6 * value * t * 2), (1.0, 2.0), params=dv),
        linear("out_proj", "proj", "row", m=t, n=h, k=value, params=h * value),
    ]
    tensors += [
        Tensor("in_proj_out", wide * t, "column", producer="qkv", consumers=("mamba",)),
        Tensor("conv_out", (2 * key + value) * t, "column", producer="mamba", consumers=("mamba",)),
        Tensor("scan_states", t / c * hv * dk * dv, "heads", 4.0, producer="mamba", consumers=("mamba",)),
        Tensor("scan_out", value * t, "column", producer="mamba", consumers=("mamba", "proj")),
        Tensor("gated_out", value * t, "column", producer="mamba", consumers=("proj",)),
    ]
    return Parts(operators, tensors, sum(op.params for op in operators))


LIGHTNING_BLOCK = 64.0
"""Tokens of a block whose scores stay on chip (Qin et al. 2024, arXiv 2401.04658, lightning attention 2, A100)."""


def decayed_attention(model: ModelSpec, batch: Batch, style: Style) -> Parts:
    """Linear attention with a fixed decay: keys times values are summed block by block, states stay on chip.

    FLOPs per token and head: causal scores and values inside a block c·(d_k + d_v), states 4·d_k·d_v. Traffic forward:
    queries, keys and values read, outputs written; backward all of them with the outputs' gradients twice (one pass
    per direction of the sum), three gradients written.
    Source: Qin et al. 2024 (arXiv 2401.04658), algorithms 1 and 2; Qin et al. 2023 (arXiv 2307.14995) for the gate.
    """
    t, h, c = batch.tokens, float(model.hidden_size), LIGHTNING_BLOCK
    hk, hv = float(model.linear_num_key_heads), float(model.linear_num_value_heads)
    dk, dv = float(model.linear_key_head_dim), float(model.linear_value_head_dim)
    key, value = hk * dk, hv * dv
    wide = 2 * key + 2 * value
    operators, tensors = norm_and_residual(model, t, style, "attn")
    operators += [
        linear("in_proj", "qkv", "column", m=t, n=wide, k=h, params=h * wide),
        Operator(
            name="scan",
            module="mamba",
            kind=Kind.SCAN,
            rule="heads",
            m=t,
            forward_flop=t * hv * (c * (dk + dv) + 4 * dk * dv),
            forward_bytes=(2 * key + 2 * value) * t * 2,
            backward_bytes=(6 * key + 5 * value) * t * 2,
            seq_len=batch.seq_len,
            forward_kernels=1,
            backward_kernels=2,
            heads=hv,
            d_qk=dk,
            d_v=dv,
        ),
        pointwise("gated_norm", "mamba", "features", (4 * value * t * 2, 6 * value * t * 2), (1.0, 2.0), params=value),
        linear("out_proj", "proj", "row", m=t, n=h, k=value, params=h * value),
    ]
    tensors += [
        Tensor("in_proj_out", wide * t, "column", producer="qkv", consumers=("mamba",)),
        Tensor("scan_out", value * t, "column", producer="mamba", consumers=("mamba", "proj")),
        Tensor("gated_out", value * t, "column", producer="mamba", consumers=("proj",)),
    ]
    return Parts(operators, tensors, sum(op.params for op in operators))
