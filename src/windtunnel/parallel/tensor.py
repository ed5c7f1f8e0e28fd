"""Tensor and sequence parallelism: cut operators by their rule and insert the collectives.

Source: Shoeybi et al. 2019 (arXiv 1909.08053); Korthikanti et al. 2022 (arXiv 2205.05198), section 4.2.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from windtunnel.graph import Block, Kind, Operator, Tensor
from windtunnel.parallel.resolve import ResolvedPlan

_FIRST_COLUMN = ("qkv", "cross_q", "fc1", "shared_fc1", "in_proj", "q_proj", "q_up")
_LAST_ROW = ("proj", "cross_proj", "fc2", "shared_fc2", "out_proj")


class Axes(Protocol):
    """Sizes of the axes that cut an operator."""

    @property
    def tp(self) -> int:
        """Ranks that cut a layer."""

    @property
    def sp(self) -> bool:
        """Whether full-width tensors are cut along the sequence."""

    @property
    def cp(self) -> int:
        """Ranks that cut sequences."""

    @property
    def ep(self) -> int:
        """Ranks that experts are spread over."""

    @property
    def etp(self) -> int:
        """Ranks that cut each expert."""


def split_operator(op: Operator, plan: Axes) -> Operator:
    """One rank's share of an operator over the tensor and context axes (the context pass cuts attention's pairs)."""
    tp, etp, cp = plan.tp, plan.etp, plan.cp
    seq = tp if plan.sp else 1
    by_tokens = cp
    match op.rule:
        case "column":
            return replace(op, m=op.m / by_tokens, n=op.n / tp, params=op.params / tp)
        case "row":
            return replace(op, m=op.m / by_tokens, k=op.k / tp, params=op.params / tp)
        case "vocab":
            scale = by_tokens * (tp if op.kind == Kind.GEMM or op.module == "loss" else 1)
            return replace(
                op,
                m=op.m / by_tokens,
                n=op.n / tp,
                params=op.params / tp,
                forward_bytes=op.forward_bytes / scale,
                backward_bytes=op.backward_bytes / scale,
            )
        case "heads":
            if op.kind == Kind.BATCHED_GEMM:
                return replace(op, groups=op.groups / tp, m=op.m / by_tokens)
            return replace(
                op,
                m=op.m / by_tokens,
                heads=op.heads / tp,
                kv_heads=max(op.kv_heads / tp, 1.0),
                forward_bytes=op.forward_bytes / (tp * by_tokens),
                backward_bytes=op.backward_bytes / (tp * by_tokens),
                forward_flop=op.forward_flop / (tp * by_tokens),
                params=op.params / tp,
            )
        case "features":
            return _scaled(op, tp * by_tokens)
        case "sequence":
            return replace(_scaled(op, seq * by_tokens), m=op.m / (by_tokens * seq))
        case "expert_column":
            rows = op.m / (by_tokens * tp) * etp
            return replace(op, m=rows, n=op.n / etp, groups=op.groups / plan.ep, params=op.params / (plan.ep * etp))
        case "expert_row":
            rows = op.m / (by_tokens * tp) * etp
            return replace(op, m=rows, k=op.k / etp, groups=op.groups / plan.ep, params=op.params / (plan.ep * etp))
        case "expert":
            return _scaled(op, by_tokens * tp)
        case _:
            return replace(_scaled(op, by_tokens), m=op.m / by_tokens)


def _scaled(op: Operator, factor: float) -> Operator:
    return replace(op, forward_bytes=op.forward_bytes / factor, backward_bytes=op.backward_bytes / factor)


def tensor_bytes(tensor: Tensor, plan: ResolvedPlan) -> float:
    """Bytes of one rank's share of an activation."""
    tp, cp = plan.tp, plan.cp
    share = {
        "sequence": tp if plan.sp else 1,
        "column": tp,
        "row": tp,
        "features": tp,
        "heads": tp,
        "vocab": tp,
        "full": 1,
        "expert": tp,
        "expert_column": tp,
        "expert_row": tp,
    }[tensor.rule]
    if tensor.name.endswith("_norm_out") and not plan.tp_regather:
        share = 1  # the gathered input of the column products is kept
    return tensor.elements * tensor.element_bytes / (share * cp)


def tensor_parallel(block: Block, plan: ResolvedPlan, hidden: float, tokens: float) -> list[Operator]:
    """Operators of one rank with the tensor axis's collectives in place.

    With sequence parallelism: all-gather before the first column GEMM (backward: reduce-scatter of its data gradient,
    and a second all-gather for its weight gradient), reduce-scatter after the row GEMM (backward: all-gather). Without:
    all-reduce after the row GEMM forward and before the column GEMM backward. Vocabulary parallelism reduces the
    embedding output and the loss statistics.
    """
    out: list[Operator] = []
    size = tokens / plan.cp * hidden * block.operators[0].element_bytes
    gathered: set[str] = set()
    for op in block.operators:
        local = split_operator(op, plan)
        if plan.tp == 1 or (block.expert_params and plan.tp == 1):
            out.append(local)
            continue
        if op.name in _FIRST_COLUMN and op.module not in gathered:
            gathered.add(op.module)
            out.append(
                _collective(
                    f"tp_gather_{op.name}",
                    "all_gather" if plan.sp else "",
                    "reduce_scatter" if plan.sp else "all_reduce",
                    size,
                    op.name,
                )
            )
            if plan.sp and plan.tp_regather:
                out.append(
                    replace(
                        _collective(f"tp_regather_{op.name}", "", "all_gather", size, op.name), recompute_repeats=False
                    )
                )
        if op.name == "lm_head":
            out.append(
                _collective(
                    "tp_gather_head",
                    "all_gather" if plan.sp else "",
                    "reduce_scatter" if plan.sp else "all_reduce",
                    size,
                    op.name,
                )
            )
        out.append(local)
        if op.name in _LAST_ROW:
            out.append(
                _collective(
                    f"tp_reduce_{op.name}",
                    "reduce_scatter" if plan.sp else "all_reduce",
                    "all_gather" if plan.sp else "",
                    size,
                    op.name,
                )
            )
        if op.name == "embedding":
            out.append(
                _collective(
                    "tp_reduce_embedding",
                    "reduce_scatter" if plan.sp else "all_reduce",
                    "all_gather" if plan.sp else "",
                    size,
                    op.name,
                )
            )
        if op.name == "loss":
            out.append(_collective("tp_reduce_loss", "all_reduce", "", 3 * tokens / plan.cp * 4, op.name))
    return out


def _collective(name: str, forward: str, backward: str, size: float, beside: str) -> Operator:
    return Operator(
        name=name,
        module="tp_comm",
        kind=Kind.COLLECTIVE,
        rule="full",
        collective=forward,
        backward_collective=backward,
        axis="tp",
        size_bytes=size,
        backward_size_bytes=size,
        overlap_with=beside,
    )
