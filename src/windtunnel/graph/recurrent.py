"""State-space and linear-attention sub-blocks, priced by their chunked algorithms."""

from __future__ import annotations

from dataclasses import dataclass, replace

from windtunnel.graph.attention import Parts, norm_and_residual
from windtunnel.graph.operators import Batch, Kind, Operator, Style, Tensor, linear, pointwise
from windtunnel.specs.model import ModelSpec

Between = tuple[list[Operator], list[Tensor]]
"""Operators between the projections of a mixer, without their weights, and the activations that they keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Dimensions of a scan over the tokens of a micro-batch."""

    tokens: float
    seq_len: float
    heads: float
    d_qk: float
    """Elements of a key, or of the state of one channel."""
    d_v: float
    """Elements of a value, or channels of a head."""
    chunk: float
    groups: float = 1.0
    """Groups of heads that share the inputs of their states."""
    convolved: float = 0.0
    """Channels of the short convolution in front; 0: none."""
    keys: float = 0.0
    """Width of all keys; absent: `heads` times `d_qk`."""

    @property
    def width(self) -> float:
        """Width of what comes out."""
        return self.heads * self.d_v

    def operator(
        self,
        flop: float,
        moved: tuple[float, float],
        kernels: tuple[float, float],
        *,
        states: tuple[float, float] = (0.0, 0.0),
        backward: float = 3.0,
    ) -> Operator:
        """The scan itself.

        Args:
            flop: of the forward pass.
            moved: bytes forward and backward, in 16 bits.
            kernels: launches forward and backward.
            states: bytes forward and backward of what is kept in fp32.
            backward: FLOPs of the backward pass over those of the forward pass.
        """
        return Operator(
            name="scan",
            module="mamba",
            kind=Kind.SCAN,
            rule="heads",
            m=self.tokens,
            forward_flop=flop,
            backward_flop_ratio=backward,
            forward_bytes=moved[0] + states[0],
            backward_bytes=moved[1] + states[1],
            fp32_forward_bytes=states[0],
            fp32_backward_bytes=states[1],
            seq_len=self.seq_len,
            forward_kernels=kernels[0],
            backward_kernels=kernels[1],
            heads=self.heads,
            d_qk=self.d_qk,
            d_v=self.d_v,
        )

    def convolution(self, forward: float, backward: float) -> Operator:
        """The short convolution in so many passes over its channels."""
        moved = self.convolved * self.tokens * 2
        return pointwise("conv1d", "mamba", "features", (forward * moved, backward * moved), (1.0, 2.0))

    def gated_norm(self) -> Operator:
        """The norm of the outputs and their gate."""
        moved = self.width * self.tokens * 2
        return pointwise("gated_norm", "mamba", "features", (4 * moved, 6 * moved), (1.0, 2.0))


def _kept(s: Scan, states: float | None) -> list[Tensor]:
    t = s.tokens
    kept = []
    if s.convolved:
        kept.append(Tensor("conv_out", s.convolved * t, "column", producer="mamba", consumers=("mamba",)))
    if states is not None:
        kept.append(Tensor("scan_states", states, "heads", 4.0, producer="mamba", consumers=("mamba",)))
    return [
        *kept,
        Tensor("scan_out", s.width * t, "column", producer="mamba", consumers=("mamba", "proj")),
        Tensor("gated_out", s.width * t, "column", producer="mamba", consumers=("proj",)),
    ]


def state_space(s: Scan) -> Between:
    """Short convolution, chunked state-space scan, gated norm (Mamba-2).

    FLOPs of the scan per token: intra-chunk scores 2·g·N·c + 2·H·P·c (half by causality), states 4·H·P·N.
    Source: Dao and Gu 2024 (arXiv 2405.21060), section 6.

    Every chunk's state, H·P·N in fp32, goes through memory between the kernels: written per chunk, read and written by
    the pass over chunks, read by the output kernel; backward makes the states again (three passes), does the same for
    their gradients (four) and reads each once more for the gradients of x and B. The fused training path keeps neither
    the convolution's output nor the scan's and repeats both.
    Source: kernels of `mamba_ssm` 2.2, `ops/triton/ssd_combined.py` (`mamba_split_conv1d_scan_combined`).
    """
    t, heads, p, n, g, c = s.tokens, s.heads, s.d_v, s.d_qk, s.groups, s.chunk
    inner = heads * p
    flop = t * (c * (g * n + heads * p) + 4 * heads * p * n)
    again = (c * heads * p + 2 * heads * p * n) / (c * (g * n + heads * p) + 4 * heads * p * n)
    states = t / c * heads * p * n * 4
    scan = s.operator(
        flop,
        (6 * inner * t * 2, 14 * inner * t * 2),
        (5, 14),
        states=(4 * states, 9 * states),
        backward=3.0 + again,
    )
    return [s.convolution(3, 8), scan, s.gated_norm()], _kept(s, t / c * heads * p * n)


def delta_rule(s: Scan) -> Between:
    """Short convolutions, chunked gated delta rule, gated norm (Qwen3-Next, Kimi-Linear).

    FLOPs per token: c·(d_k + d_v)·heads twice (scores and delta rule) and 4·heads·d_k·d_v for the states.
    Source: Yang et al. 2024 (arXiv 2412.06464), section 3.3.
    """
    t, heads, dk, dv, c = s.tokens, s.heads, s.d_qk, s.d_v, s.chunk
    flop = t * (2 * c * heads * (dk + dv) + 4 * heads * dk * dv)
    scan = s.operator(flop, (8 * s.width * t * 2, 16 * s.width * t * 2), (6, 10))
    return [s.convolution(3, 5), scan, s.gated_norm()], _kept(s, t / c * heads * dk * dv)


def decayed_sum(s: Scan) -> Between:
    """Keys times values summed block by block under a decay, gated norm; states stay on chip.

    FLOPs per token and head: causal scores and values inside a block c·(d_k + d_v), states 4·d_k·d_v. Traffic forward:
    queries, keys and values read, outputs written; backward all of them with the outputs' gradients twice (one pass
    per direction of the sum), three gradients written.
    Source: Qin et al. 2024 (arXiv 2401.04658), algorithms 1 and 2; Qin et al. 2023 (arXiv 2307.14995) for the gate.
    """
    t, heads, dk, dv, c = s.tokens, s.heads, s.d_qk, s.d_v, s.chunk
    key, value = s.keys or heads * dk, s.width
    flop = t * heads * (c * (dk + dv) + 4 * dk * dv)
    scan = s.operator(flop, ((2 * key + 2 * value) * t * 2, (6 * key + 5 * value) * t * 2), (1, 2))
    return [scan, s.gated_norm()], _kept(s, None)


def elementwise_scan(s: Scan) -> Between:
    """Short convolution where there is one, a recurrence channel by channel, a gate; states stay on chip.

    FLOPs per token and channel: 4 for each element of its state. Traffic forward: inputs, step sizes and gates read,
    outputs written, and the inputs of states, which channels share; backward reads them again with the gradient of the
    outputs and writes five gradients.
    Source: Gu and Dao 2023 (arXiv 2312.00752), section 3.3.2: states are never written to memory.
    """
    t, width = s.tokens, s.width
    flop = 4 * t * s.heads * s.d_qk * s.d_v
    scan = replace(s.operator(flop, (4 * width * t * 2, 9 * width * t * 2), (1, 2)), elementwise=True)
    between = [s.convolution(3, 5)] if s.convolved else []
    moved = width * t * 2
    gate = pointwise("gating", "mamba", "features", (3 * moved, 5 * moved), (1.0, 2.0))
    return [*between, scan, gate], _kept(s, None)


def _owned(operators: list[Operator], **params: float) -> list[Operator]:
    """The operators with the weights that those named own."""
    return [replace(op, params=params[op.name]) if op.name in params else op for op in operators]


def mamba2(model: ModelSpec, batch: Batch, style: Style) -> Parts:
    """Mamba-2 mixer: in-projection, short convolution, chunked state-space scan, gated norm, out-projection."""
    t = batch.tokens
    heads, p, n = float(model.mamba_num_heads), float(model.mamba_head_dim), float(model.ssm_state_size)
    g = float(model.n_groups)
    inner = heads * p
    wide = 2 * inner + 2 * g * n + heads
    scan = Scan(
        tokens=t,
        seq_len=batch.seq_len,
        heads=heads,
        d_qk=n,
        d_v=p,
        chunk=float(model.chunk_size),
        groups=g,
        convolved=inner + 2 * g * n,
    )
    between, kept = state_space(scan)
    owned = _owned(between, conv1d=scan.convolved * (model.conv_kernel + 1), scan=3 * heads, gated_norm=inner)
    return _mixer(model, t, style, wide, owned, kept, inner)


def _mixer(
    model: ModelSpec,
    tokens: float,
    style: Style,
    wide: float,
    between: list[Operator],
    kept: list[Tensor],
    width: float,
) -> Parts:
    """Norm, in-projection to `wide`, what lies between, out-projection from `width`."""
    h = float(model.hidden_size)
    operators, tensors = norm_and_residual(model, tokens, style, "attn")
    operators += [
        linear("in_proj", "qkv", "column", m=tokens, n=wide, k=h, params=h * wide),
        *between,
        linear("out_proj", "proj", "row", m=tokens, n=h, k=width, params=h * width),
    ]
    tensors += [Tensor("in_proj_out", wide * tokens, "column", producer="qkv", consumers=("mamba",)), *kept]
    return Parts(operators, tensors, sum(op.params for op in operators))


def _linear_scan(model: ModelSpec, batch: Batch, chunk: float) -> tuple[Scan, float, float]:
    """The scan of a linear-attention layer, and the widths of its keys and values."""
    heads, dk, dv = model.linear_num_value_heads, model.linear_key_head_dim, model.linear_value_head_dim
    key, value = float(model.linear_num_key_heads * dk), float(heads * dv)
    scan = Scan(
        tokens=batch.tokens,
        seq_len=batch.seq_len,
        heads=float(heads),
        d_qk=float(dk),
        d_v=float(dv),
        chunk=chunk,
        convolved=2 * key + value,
        keys=key,
    )
    return scan, key, value


def linear_attention(model: ModelSpec, batch: Batch, style: Style) -> Parts:
    """Gated delta-rule linear attention in chunks of 64 (Qwen3-Next)."""
    scan, key, value = _linear_scan(model, batch, 64.0)
    between, kept = delta_rule(scan)
    owned = _owned(between, conv1d=scan.convolved * model.conv_kernel, scan=2 * scan.heads, gated_norm=float(scan.d_v))
    return _mixer(model, batch.tokens, style, 2 * key + 2 * value + 2 * scan.heads, owned, kept, value)


LIGHTNING_BLOCK = 64.0
"""Tokens of a block whose scores stay on chip (Qin et al. 2024, arXiv 2401.04658, lightning attention 2, A100)."""


def decayed_attention(model: ModelSpec, batch: Batch, style: Style) -> Parts:
    """Linear attention with a fixed decay, without convolution (TransNormerLLM, RetNet, lightning attention)."""
    scan, key, value = _linear_scan(model, batch, LIGHTNING_BLOCK)
    between, kept = decayed_sum(replace(scan, convolved=0.0))
    return _mixer(model, batch.tokens, style, 2 * key + 2 * value, _owned(between, gated_norm=value), kept, value)
