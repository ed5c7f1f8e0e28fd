"""Single operators that Python issues beside the kernels of a layer: unfused rotation, packed documents, the router.

Counts are those of PyTorch operators that launch a kernel or read a number back, in the source of the release that
`stacks/training` names: rotation in Megatron-Core `models/common/embeddings/rope_utils.py`, exchanges of packed
documents in TransformerEngine `attention/dot_product_attention/context_parallel.py` (2.14), the router in Megatron-Core
`transformer/moe/{router,moe_utils,token_dispatcher}.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.graph import Batch
from windtunnel.parallel.expert import FUSED_DISPATCHERS
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.segment import Segment
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.stage_costs.local_block import rotates_by_operators

TURN = (12.0, 9.0)
"""Operators that rotate one tensor, forward and backward: cosine, scale and cast; sine, scale and cast; two products, a
sum, and half of the tensor negated, joined and joined to what does not turn. Frequencies learn nothing."""
INTERLEAVED = (1.0, 2.0)
"""Latent attention besides: even and odd elements are taken apart and joined."""
PIECE = (1.0, 3.0)
"""One document besides: its result is copied into the row; backward copies the row's gradient, the document's part of
it, and writes zeros where it was."""
SPLIT = 5.0
"""One call besides: lengths of documents, their read, the read of the row's length, and the row itself."""
GATHERED = (16.0, 10.0)
"""Operators that make the frequencies of all documents at once; with context parallelism, as many more."""
BEFORE, AFTER = 11.0, 7.0
"""Operators for one piece of a document in an exchange before and after attention: its two borders are computed on the
device (eight operators, four), both are read back, and its indices are made."""
BALANCE = (16.0, 8.0)
"""Load-balancing loss: scores and choices once more, tokens an expert, their products and sums, the loss's scale."""
SPLITS = {"alltoall": 16.0, "allgather": 8.0, "einsum": 8.0} | dict.fromkeys(FUSED_DISPATCHERS, 8.0)
"""Dispatcher → operators forward that count tokens for ranks and experts, and copy the counts to the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eager:
    """What a framework issues operator by operator."""

    documents: float = 0.0
    """Packed documents of a micro-batch; 0: rows are whole sequences."""
    rotates: bool = False
    """Rotation is unfused."""
    rope_by_document: bool = False
    exchange_by_document: bool = False
    balances: bool = False
    """The router counts and balances in operators of its own (Megatron-Core)."""

    @classmethod
    def of(cls, behaviour: Behaviour, training: TrainingSpec, plan: ResolvedPlan, batch: Batch) -> Eager:
        """What the software of a workload issues for a micro-batch."""
        packed = training.mean_document_length is not None and behaviour.style == "fused"
        return cls(
            documents=batch.tokens / batch.seq_len if packed else 0.0,
            rotates=rotates_by_operators(behaviour, plan),
            rope_by_document=behaviour.rope_by_document,
            exchange_by_document=behaviour.exchange_by_document,
            balances=behaviour.experts_looped,
        )


def rotation(segment: Segment, model: ModelSpec, plan: ResolvedPlan, eager: Eager) -> tuple[float, float]:
    """Operators of unfused rotation that the host issues ahead, and those before which it has waited for the device."""
    modules = ("rope", "mla_up_proj")
    passes = _passes(segment, modules)
    if not eager.rotates or model.position_embedding != "rope" or not any(passes):
        return 0.0, 0.0
    latent = INTERLEAVED if model.is_mla else (0.0, 0.0)
    forward, backward = 2.0 * (TURN[0] + latent[0]), 2.0 * (TURN[1] + latent[1])
    if not eager.documents:
        return passes[0] * forward + passes[1] * backward, 0.0
    if not eager.rope_by_document:
        made = 2.0 * (GATHERED[0] + (GATHERED[1] if plan.cp > 1 else 0.0))
        return passes[1] * backward, passes[0] * (forward + made)
    halves = 1.0 if plan.cp > 1 else 0.0  # frequencies of the two parts that a rank has of a document are joined
    forward = eager.documents * (forward + 2.0 * (PIECE[0] + halves)) + 2.0 * SPLIT
    backward = eager.documents * (backward + 2.0 * PIECE[1])
    return passes[1] * backward, passes[0] * forward


def exchange(segment: Segment, plan: ResolvedPlan, eager: Eager) -> float:
    """Operators with which all-to-all context parallelism orders packed documents; each waits for the device."""
    forward, backward = _passes(segment, ("core_attn",))
    if not eager.documents or not eager.exchange_by_document or plan.cp == 1 or plan.cp_kind != "all_to_all":
        return 0.0
    pieces = eager.documents * 2.0 * plan.cp
    # queries, keys and values go, the result comes back; its gradient goes, three gradients come back
    return pieces * (forward * (3.0 * BEFORE + AFTER) + backward * (BEFORE + 3.0 * AFTER))


def bookkeeping(segment: Segment, plan: ResolvedPlan, eager: Eager) -> float:
    """Operators of a mixture's router beside the choice of experts: balance, and tokens for each rank and expert."""
    if not eager.balances:
        return 0.0
    forward, backward = _passes(segment, ("router",))
    splits = SPLITS[plan.dispatcher] if plan.ep > 1 else 2.0
    return forward * (BALANCE[0] + splits) + backward * BALANCE[1]


def _passes(segment: Segment, modules: tuple[str, ...]) -> tuple[float, float]:
    """Forward and backward passes of a segment through some modules: 1, or 0."""
    own = {x.phase for x in segment.launches if x.module in modules}
    return float(bool(own & {"F", "R"})), float("D" in own)
