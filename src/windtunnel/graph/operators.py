"""Operators of one block, unsharded, each with its sharding rule.

A block is a list of forward operators in execution order. What runs backward follows from the kind: a GEMM has a data
and a weight gradient, attention its own backward kernel, everything else a second pass over memory. Sizes are floats
so that a pass may divide them; rows are tokens (or routed tokens) of one micro-batch on one data-parallel replica.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal


class Kind(IntEnum):
    """What limits an operator, hence which cost function prices it."""

    GEMM = 0
    GROUPED_GEMM = 1
    BATCHED_GEMM = 2
    ATTENTION = 3
    POINTWISE = 4
    SCAN = 5
    COLLECTIVE = 6


Rule = Literal[
    "column", "row", "heads", "features", "sequence", "vocab", "expert_column", "expert_row", "expert", "full"
]
"""How the tensor axis cuts an operator.

`column`/`row` split a GEMM's n/k; `heads` the attention heads; `features` element-wise work on tensors that a column
split produced; `sequence` element-wise work on full-width tensors (cut only under sequence parallelism); `vocab` the
head; `expert*` follow the expert axes; `full` is replicated.
"""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An activation that a block produces. `elements` over the micro-batch, unsharded."""

    name: str
    elements: float
    rule: Rule
    element_bytes: float = 2.0
    producer: str = ""
    """Module that computes it ("" = comes from the previous block)."""
    consumers: tuple[str, ...] = ()
    """Modules whose backward reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One forward operator. Unused sizes are zero. FLOPs and bytes follow from the sizes (see `cost`)."""

    name: str
    module: str
    kind: Kind
    rule: Rule
    m: float = 0.0
    n: float = 0.0
    k: float = 0.0
    groups: float = 1.0
    """Independent matrices (experts, or batch × heads)."""
    pairs: float = 0.0
    """Attention: query-key pairs over the micro-batch after masking, per head."""
    seq_len: float = 0.0
    """Attention and scan: longest sequence, for ramps."""
    heads: float = 0.0
    kv_heads: float = 0.0
    d_qk: float = 0.0
    d_v: float = 0.0
    forward_bytes: float = 0.0
    """Element-wise work: bytes moved forward, and backward."""
    backward_bytes: float = 0.0
    fp32_forward_bytes: float = 0.0
    """The part of these that moves fp32 whatever the precision (router probabilities, states of a recurrence)."""
    fp32_backward_bytes: float = 0.0
    element_bytes: float = 2.0
    """Bytes of one element that it reads or writes: what products write, what collectives of its tensors carry."""
    dependent_loads: float = 0.0
    """Element-wise work: loads of one thread that wait for one another forward (a sum down a column)."""
    row_reduction: bool = False
    """Element-wise work with reductions along rows that do not stream (softmax)."""
    forward_flop: float = 0.0
    """Scans only."""
    backward_flop_ratio: float = 3.0
    """Scans: backward FLOPs over forward ones."""
    elementwise: bool = False
    """Scans: whether channels run one by one, without matrix products."""
    params: float = 0.0
    """Weights the operator owns, unsharded."""
    number_class: Literal["linear", "bf16", "fp32", "head", "router"] = "bf16"
    """Which entry of the precision recipe applies to its matrices."""
    ring: float = 1.0
    """Attention: blocks of keys that a ring of ranks brings one after the other."""
    forward_kernels: float = 1.0
    backward_kernels: float = 2.0
    trainable: bool = True
    adapters: tuple[float, ...] = ()
    """Share of the outputs that each low-rank adapter next to the product makes."""
    input_cast_share: float = 1.0
    """Low precision: share of the input that this rank casts; the rest arrives quantised by a gather."""
    grad_cast_share: float = 1.0
    """Low precision: share of the output's gradient that this rank casts."""
    wgrad_accumulate_bytes: float = 0.0
    """Bytes per weight that the weight gradient reads and writes besides its own output (gradient accumulation)."""
    collective: str = ""
    """COLLECTIVE: operation (all_reduce, all_gather, reduce_scatter, all_to_all)."""
    axis: str = ""
    """COLLECTIVE: mesh axis."""
    backward_collective: str = ""
    size_bytes: float = 0.0
    """COLLECTIVE: bytes of the full (gathered) tensor."""
    backward_size_bytes: float = 0.0
    return_size_bytes: float = 0.0
    """COLLECTIVE of two flows: bytes that come back while `size_bytes` go ahead."""
    backward_return_size_bytes: float = 0.0
    overlap_with: str = ""
    """COLLECTIVE: operator next to which it may run (set by overlap passes)."""
    recompute_repeats: bool = True
    """Whether recomputation repeats it."""


def linear(name: str, module: str, rule: Rule, *, m: float, n: float, k: float, params: float) -> Operator:
    """A product of m rows with a k by n weight, in the precision of linear layers; `params` includes its bias."""
    return Operator(
        name=name, module=module, kind=Kind.GEMM, rule=rule, m=m, n=n, k=k, params=params, number_class="linear"
    )


def pointwise(
    name: str,
    module: str,
    rule: Rule,
    nbytes: tuple[float, float],
    kernels: tuple[float, float],
    *,
    params: float = 0.0,
    row_reduction: bool = False,
) -> Operator:
    """Element-wise work with bytes moved and kernels launched, each (forward, backward)."""
    return Operator(
        name=name,
        module=module,
        kind=Kind.POINTWISE,
        rule=rule,
        forward_bytes=nbytes[0],
        backward_bytes=nbytes[1],
        params=params,
        forward_kernels=kernels[0],
        backward_kernels=kernels[1],
        row_reduction=row_reduction,
    )


@dataclass(frozen=True, slots=True)
class Block:
    """One layer kind, or the embedding, or the head with its loss."""

    kind: str
    operators: tuple[Operator, ...]
    tensors: tuple[Tensor, ...]
    params: float
    """Unsharded weights (experts included)."""
    expert_params: float = 0.0
    """The part of `params` that the expert axes shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGraph:
    """Blocks by kind, the depth as a string of kinds, and the two ends."""

    depth: str
    blocks: dict[str, Block]
    embedding: Block
    head: Block
    model_flop_per_token: float
    """6 · matmul parameters used + 12·L·h·s attention, forward and backward, no recomputation."""
    attention_flop_per_token: float
    tied: bool
    further_tokens: int = 0
    """Modules of multi-token prediction behind the last layer (see `graph.predicted`)."""
    element_bytes: float = 2.0
    """Bytes of one element of an activation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one call works on: the micro-batch of one replica, before context parallelism."""

    tokens: float
    sequences: float
    seq_len: float
    pairs: float
    """Σ q·kv over sequences, causal mask applied (half) where the model is causal."""
    full_pairs: float
    logits_rows: float
    training: bool = True
    decoder_tokens: float = 0.0
    decoder_seq_len: float = 0.0

    @staticmethod
    def train(
        mbs: float, seq_len: float, *, document: float | None = None, decoder_seq_len: float | None = None
    ) -> Batch:
        """A training micro-batch of `mbs` sequences of `seq_len` tokens; `document`: mean packed length."""
        length = min(document, seq_len) if document else seq_len
        full = mbs * seq_len * length
        dec = decoder_seq_len or seq_len
        return Batch(
            tokens=mbs * seq_len,
            sequences=mbs,
            seq_len=length,
            pairs=full / 2,
            full_pairs=full,
            logits_rows=mbs * seq_len,
            training=True,
            decoder_tokens=mbs * dec,
            decoder_seq_len=dec,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Fusion of element-wise work in one software generation: tensor passes per token, forward and backward.

    Source: counts of reads and writes in the fused kernels of each stack, see docs/internals/cost-model.md.
    """

    norm: tuple[float, float] = (3.0, 4.0)
    """Passes over hidden-width tensors for one norm (read input, write output; backward reads both, writes one)."""
    rms_norm: tuple[float, float] | None = None
    """Passes for one root-mean-square norm where it is written out in fp32, not one kernel as a layer norm is."""
    residual: tuple[float, float] = (2.0, 2.0)
    """One residual addition (with bias and dropout where the model has them)."""
    rope: tuple[float, float] = (2.0, 2.0)
    activation_gated: tuple[float, float] = (3.0, 5.0)
    activation_plain: tuple[float, float] = (2.0, 3.0)
    qkv_split: tuple[float, float] = (0.0, 0.0)
    """Bias, split and transpose passes over q, k and v."""
    context: tuple[float, float] = (0.0, 0.0)
    loss_bytes_per_logit: tuple[float, float] = (10.0, 12.0)
    loss_casts: bool = True
    """Logits are cast to fp32 before the loss, and their gradient back; else kernels read 16 bits and cast inside."""
    fused_loss_bytes_per_logit: tuple[float, float] = (6.0, 8.0)
    """Head and loss in one: logits and their gradient in the precision of activations, cast inside the kernels."""
    fused_loss_saved_bytes: float = 4.0
    embedding_bytes_per_hidden: tuple[float, float] = (6.0, 6.0)
    unfused_softmax: tuple[float, float] = (2.0, 2.5)
    """Passes over the score matrix: softmax (and mask), then dropout."""
    unfused_dropout: tuple[float, float] = (2.5, 3.0)
    layer_kernels: tuple[float, float] = (24.0, 45.0)
    """Launches of one attention + MLP layer, forward and backward, for the host."""
    saved_bytes_per_logit: float = 4.0
    saved_per_norm: float = 2.0
    """Hidden-width tensors (16 bits) that one norm keeps for backward: input and output; eager code keeps the input in
    fp32 and the normalised values as well."""
    residual_mask: bool = False
    """Whether dropout before each residual addition keeps its mask (one byte an element)."""
    expands_kv: bool = False
    """Whether keys and values are repeated for every query head before attention (and kept so)."""
    saves_gate: float = 0.0
    """Extra MLP-width tensors an unfused activation keeps."""
    clamp: tuple[float, float] = (8.0, 10.0)
    """Activations that clamp gate and input (gpt-oss): halves are clamped and joined again before the activation."""
    expert_bias: tuple[float, float] = (4.0, 4.0)
    """Passes over an expert's output for its bias: added expert by expert and joined; its gradient is a sum of rows."""
    permute: tuple[float, float] = (2.5, 2.5)
    """MoE: passes over routed tokens for permute and for unpermute."""

    def full_precision(self) -> Style:
        """Passes where tensors are fp32 already: casts to fp32 and back (six bytes each) are not there.

        A written-out norm forward: square 2 passes, mean 1, scale 2, weight 2; backward loses two casts of 34 passes
        of two bytes, and what was in 16 bits has four. Its input is no tensor of its own.
        """
        cast = 6.0
        forward, backward = self.loss_bytes_per_logit
        loss = (forward - cast, backward - cast) if self.loss_casts else (2.0 * forward, 2.0 * backward)
        rms = (7.0, 17.0) if self.rms_norm else None
        return replace(
            self,
            rms_norm=rms,
            loss_bytes_per_logit=loss,
            saved_per_norm=min(self.saved_per_norm, 3.0),
            fused_loss_bytes_per_logit=(12.0, 16.0),
            fused_loss_saved_bytes=8.0,
        )

    def norm_passes(self, kind: str) -> tuple[float, float]:
        """Passes of one norm, forward and backward, for `layernorm` or `rmsnorm`."""
        return self.rms_norm if kind == "rmsnorm" and self.rms_norm else self.norm


STYLES: dict[str, Style] = {
    "fused": Style(),
    "compiled": Style(
        norm=(2.5, 3.5),
        residual=(1.5, 1.5),
        loss_bytes_per_logit=(5.0, 7.0),
        loss_casts=False,
        layer_kernels=(12.0, 22.0),
        saved_bytes_per_logit=12.0,
    ),
    "eager": Style(
        norm=(4.0, 7.0),
        rms_norm=(18.0, 34.0),
        residual=(3.0, 3.0),
        rope=(10.0, 10.0),
        activation_gated=(5.0, 8.0),
        activation_plain=(2.0, 3.0),
        loss_bytes_per_logit=(12.0, 14.0),
        layer_kernels=(28.0, 50.0),
        saved_bytes_per_logit=12.0,
        saved_per_norm=4.0,
        saves_gate=1.0,
    ),
    "megatron_2021": Style(
        norm=(2.0, 4.0),
        residual=(3.5, 6.5),
        rope=(0.0, 0.0),
        activation_gated=(5.0, 8.0),
        activation_plain=(2.0, 3.5),
        qkv_split=(4.0, 4.0),
        context=(2.0, 1.0),
        loss_bytes_per_logit=(12.0, 13.0),
        embedding_bytes_per_hidden=(8.0, 8.0),
        layer_kernels=(28.0, 50.0),
        saved_bytes_per_logit=8.0,
        residual_mask=True,
    ),
}
