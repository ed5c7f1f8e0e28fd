"""Expert parallelism: dispatch and combine, imbalance, the host read of token counts.

Source: Lepikhin et al. 2020 (arXiv 2006.16668); DeepSeek-V3 (arXiv 2412.19437) for node-level de-duplication.
"""

from __future__ import annotations

from dataclasses import replace

from windtunnel.graph import Kind, Operator
from windtunnel.parallel.resolve import ResolvedPlan

FUSED_ACTIVATION = 0.4
"""Share of an activation's backward passes that remain in a product's epilogue: the kept input is read (two of five),
what the product would have written is not read again. Forward nothing remains."""
FUSED_DISPATCHERS = ("deepep", "hybridep")
FUSED_PASSES = 0.4
"""Dispatchers that write tokens in expert order leave one pass over routed tokens of the 2.5 that separate kernels take
(read, index, write)."""


def distinct_destinations(domains: float, topk: float) -> float:
    """Expected number of distinct domains that a token's `topk` uniformly drawn experts lie in."""
    return float(domains * (1.0 - (1.0 - 1.0 / domains) ** topk))


def expert_parallel(
    operators: list[Operator],
    plan: ResolvedPlan,
    *,
    hidden: float,
    imbalance: float,
    fused_experts: bool = False,
) -> list[Operator]:
    """Insert the all-to-alls around the experts; the busiest rank's rows grow by the imbalance."""
    if not any(op.kind == Kind.GROUPED_GEMM for op in operators):
        return operators
    out: list[Operator] = []
    fused = plan.ep > 1 and plan.dispatcher in FUSED_DISPATCHERS
    for op in operators:
        if fused and op.module == "permute":
            op = replace(
                op, forward_bytes=op.forward_bytes * FUSED_PASSES, backward_bytes=op.backward_bytes * FUSED_PASSES,
                forward_kernels=1, backward_kernels=1,
            )  # fmt: skip
        if op.kind == Kind.GROUPED_GEMM:
            op = replace(op, m=op.m * imbalance)
        elif op.name == "expert_act":
            op = replace(op, forward_bytes=op.forward_bytes * imbalance, backward_bytes=op.backward_bytes * imbalance)
            op = replace(
                op, forward_kernels=op.forward_kernels / plan.ep, backward_kernels=op.backward_kernels / plan.ep
            )  # fmt: skip
            if fused_experts:
                op = replace(
                    op, forward_bytes=0.0, backward_bytes=op.backward_bytes * FUSED_ACTIVATION, forward_kernels=0,
                    backward_kernels=0,
                )  # fmt: skip
        if op.name == "permute":
            out.append(op)
            if plan.ep > 1:
                out.append(_all_to_all("ep_dispatch", operators, plan, hidden, imbalance))
            if plan.etp > 1:
                out.append(_expert_tensor("etp_gather", "all_gather", "reduce_scatter", operators, hidden, imbalance))
            continue
        if op.name == "unpermute" and plan.etp > 1:
            out.append(_expert_tensor("etp_reduce", "reduce_scatter", "all_gather", operators, hidden, imbalance))
        if op.name == "unpermute" and plan.ep > 1:
            out.append(_all_to_all("ep_combine", operators, plan, hidden, imbalance))
        out.append(op)
    return out


def _rows_bytes(operators: list[Operator], hidden: float, imbalance: float) -> float:
    """Bytes of the rows that one rank's experts work on."""
    grouped = next(op for op in operators if op.kind == Kind.GROUPED_GEMM)
    return grouped.m * hidden * grouped.element_bytes * imbalance


def _all_to_all(name: str, operators: list[Operator], plan: ResolvedPlan, hidden: float, imbalance: float) -> Operator:
    size = _rows_bytes(operators, hidden, imbalance) / plan.etp
    return Operator(
        name, "ep_comm", Kind.COLLECTIVE, "full", collective="all_to_all", backward_collective="all_to_all", axis="ep",
        size_bytes=size, backward_size_bytes=size,
    )  # fmt: skip


def _expert_tensor(
    name: str, forward: str, backward: str, operators: list[Operator], hidden: float, imbalance: float
) -> Operator:
    """Routed rows are gathered over the ranks that share an expert, and their results reduced."""
    size = _rows_bytes(operators, hidden, imbalance)
    return Operator(
        name, "ep_comm", Kind.COLLECTIVE, "full", collective=forward, backward_collective=backward, axis="etp",
        size_bytes=size, backward_size_bytes=size,
    )  # fmt: skip
