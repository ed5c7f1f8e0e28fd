"""Context parallelism: ring, token ring, all-to-all, all-gather and their hybrid; states of linear attention.

Sources: Liu et al. 2023 (arXiv 2310.01889) for the ring, Jacobs et al. 2023 (arXiv 2309.14509) for the all-to-all form,
Fang and Zhao 2024 (arXiv 2405.07719) for the hybrid, Llama 3 (arXiv 2407.21783) for the all-gather of keys and values,
Wang et al. 2024 (arXiv 2412.20501) for the token ring, Sun et al. 2024 (arXiv 2404.02882) for states from rank to rank
and Sun et al. 2025 (arXiv 2502.07563) for their all-gather.
"""

from __future__ import annotations

from dataclasses import replace

from windtunnel.graph import Kind, Operator
from windtunnel.parallel.resolve import ResolvedPlan

LSE_BYTES = 4.0
"""Bytes of the log-sum-exp that travels with a partial output: fp32, one a row and head."""
_PASSED_ON = ("ring", "token_ring")
"""Kinds under which states of linear attention go from rank to rank; else they are gathered."""


def context_parallel(operators: list[Operator], plan: ResolvedPlan, *, eager_merge: bool = False) -> list[Operator]:
    """Cut attention over the context axis and add the exchange of keys and values (or of heads).

    With `eager_merge` partial outputs are merged operator by operator in fp32, as PyTorch does (cast, difference,
    product, difference; half of the rows in half of the steps, put together again): 33 bytes an element and step, six
    of them for the cast, which fp32 does not need.
    """
    if plan.cp == 1:
        return operators
    a2a = {"ring": 1, "all_gather": 1, "token_ring": 1, "all_to_all": plan.cp, "hybrid": plan.cp_all_to_all}[
        plan.cp_kind
    ]
    ring = plan.cp // a2a
    out: list[Operator] = []
    for op in operators:
        if op.kind == Kind.SCAN:
            out += [_states(op, plan), op]
            continue
        if op.kind != Kind.ATTENTION:
            out.append(op)
            continue
        kv_bytes = op.m * op.kv_heads * (op.d_qk + op.d_v) * op.element_bytes
        q_bytes = op.m * op.heads * op.d_qk * op.element_bytes
        o_bytes = op.m * op.heads * op.d_v * op.element_bytes
        if a2a > 1:
            out.append(_exchange(f"cp_scatter_{op.name}", "all_to_all", "cp_a2a", q_bytes + kv_bytes, ""))
        local = replace(
            op, heads=op.heads / a2a, kv_heads=max(op.kv_heads / a2a, 1.0), m=op.m * a2a, pairs=op.pairs / ring
        )
        if ring > 1:
            step_kv = kv_bytes  # the ring moves this rank's heads over its share of tokens
            if plan.cp_kind == "all_gather":
                gather = _exchange(f"cp_gather_{op.name}", "all_gather", "cp_ring", step_kv * ring, "")
                out.append(replace(gather, backward_collective="reduce_scatter"))
                out.append(replace(local, seq_len=op.seq_len))
            else:
                # each step runs on a (chunk, chunk) pair: shorter kernels, and partial results are merged in fp32
                if plan.cp_kind == "token_ring":
                    out.append(_token_exchange(op, q_bytes, o_bytes, ring))
                else:
                    moved = step_kv * (ring - 1)
                    exchange = _exchange(f"cp_ring_{op.name}", "ring_exchange", "cp_ring", moved, op.name)
                    out.append(replace(exchange, backward_size_bytes=2 * moved))
                out.append(
                    replace(
                        local,
                        seq_len=op.seq_len / ring,
                        ring=float(ring),
                        forward_kernels=ring,
                        backward_kernels=2 * ring,
                    )
                )
                merge = (ring - 1) * op.m * op.heads * op.d_v * _merge_bytes(op.element_bytes, eager_merge)
                out.append(
                    Operator(
                        name=f"cp_merge_{op.name}",
                        module="core_attn",
                        kind=Kind.POINTWISE,
                        rule="full",
                        forward_bytes=merge,
                        backward_bytes=(ring - 1) * (q_bytes + kv_bytes) * 8 / op.element_bytes,
                        forward_kernels=2 * ring,
                        backward_kernels=2 * ring,
                    )
                )
        else:
            out.append(local)
        if a2a > 1:
            out.append(_exchange(f"cp_collect_{op.name}", "all_to_all", "cp_a2a", o_bytes, ""))
    return out


def _states(op: Operator, plan: ResolvedPlan) -> Operator:
    """Running states (keys times values, fp32) that ranks pass on before their scan, whatever the sequence's length.

    From rank to rank each layer waits for one message (ranks run behind one another by as much, which is not repeated
    from layer to layer); an all-gather brings everybody's states at once.
    """
    sequences = op.m * plan.cp / op.seq_len if op.seq_len else 1.0
    size = sequences * op.heads * op.d_qk * op.d_v * 4.0
    collective = "send_recv" if plan.cp_kind in _PASSED_ON else "all_gather"
    if collective == "all_gather":
        size *= plan.cp
    return Operator(
        name=f"cp_states_{op.name}",
        module="cp_comm",
        kind=Kind.COLLECTIVE,
        rule="full",
        collective=collective,
        backward_collective=collective,
        axis="cp",
        size_bytes=size,
        backward_size_bytes=size,
    )


def _token_exchange(op: Operator, q_bytes: float, o_bytes: float, ring: int) -> Operator:
    """Queries go ahead while partial outputs come back: two flows in opposite directions next to attention.

    `size_bytes` is what goes ahead, `return_size_bytes` what comes back, over all steps. Backward queries, their
    outputs' gradients and two statistics a row go ahead, gradients of queries come back.
    """
    rows = op.m * op.heads * LSE_BYTES
    steps = ring - 1
    exchange = _exchange(f"cp_ring_{op.name}", "token_exchange", "cp_ring", q_bytes * steps, op.name)
    return replace(
        exchange,
        backward_size_bytes=(q_bytes + o_bytes + 2 * rows) * steps,
        return_size_bytes=(o_bytes + rows) * steps,
        backward_return_size_bytes=q_bytes * steps,
    )


def _merge_bytes(element_bytes: float, eager: bool) -> float:
    """Bytes per element and step of merging a partial output into the fp32 sum."""
    if eager:
        return 33.0 if element_bytes < 4.0 else 27.0
    return 4.0 + 4.0 + element_bytes


def _exchange(name: str, operation: str, axis: str, size: float, beside: str) -> Operator:
    return Operator(
        name=name,
        module="cp_comm",
        kind=Kind.COLLECTIVE,
        rule="full",
        collective=operation,
        backward_collective=operation,
        axis=axis,
        size_bytes=size,
        backward_size_bytes=size,
        overlap_with=beside,
    )
