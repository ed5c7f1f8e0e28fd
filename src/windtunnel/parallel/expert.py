"""Expert parallelism: dispatch and combine, imbalance, the host read of token counts.

Source: Lepikhin et al. 2020 (arXiv 2006.16668); DeepSeek-V3 (arXiv 2412.19437) for node-level de-duplication;
Megatron-Core `transformer/moe/token_dispatcher.py` (`MoEAllGatherTokenDispatcher`): every rank gathers the tokens of
all ranks that hold experts, whatever they chose, and scatters the sums of what its own experts made of them.
"""

from __future__ import annotations

from dataclasses import replace

from windtunnel.graph import Kind, Operator
from windtunnel.graph.operators import pointwise
from windtunnel.parallel.expert_masks import masked_gate
from windtunnel.parallel.resolve import ResolvedPlan

FUSED_ACTIVATION = 0.4
"""Share of an activation's backward passes that remain in a product's epilogue: the kept input is read (two of five),
what the product would have written is not read again. Forward nothing remains."""
GATHERS = "allgather"
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
    masks: bool = False,
) -> list[Operator]:
    """Insert the all-to-alls around the experts; the busiest rank's rows grow by the imbalance."""
    if not any(op.kind == Kind.GROUPED_GEMM for op in operators):
        return operators
    out: list[Operator] = []
    fused = plan.ep > 1 and plan.dispatcher in FUSED_DISPATCHERS
    for op in operators:
        if fused and op.module == "permute":
            op = replace(
                op,
                forward_bytes=op.forward_bytes * FUSED_PASSES,
                backward_bytes=op.backward_bytes * FUSED_PASSES,
                forward_kernels=1,
                backward_kernels=1,
            )
        if masks and op.name == "routing":
            op = masked_gate(op_tokens(operators), hidden, _places(operators, plan), _experts(operators) * plan.ep)
        if op.kind == Kind.GROUPED_GEMM:
            op = replace(op, m=op.m * imbalance)
        elif op.name == "expert_act":
            op = replace(op, forward_bytes=op.forward_bytes * imbalance, backward_bytes=op.backward_bytes * imbalance)
            op = replace(
                op, forward_kernels=op.forward_kernels / plan.ep, backward_kernels=op.backward_kernels / plan.ep
            )
            if fused_experts:
                op = replace(
                    op,
                    forward_bytes=0.0,
                    backward_bytes=op.backward_bytes * FUSED_ACTIVATION,
                    forward_kernels=0,
                    backward_kernels=0,
                )
        if plan.ep > 1 and plan.dispatcher == GATHERS:
            op = _over_all_tokens(op, operators, plan, hidden)
        if op.name == "permute":
            out += [op, *_masked("dispatch", operators, plan, hidden)]
            out += _to_experts(operators, plan, hidden, imbalance)
            continue
        if op.name == "unpermute":
            out += _stashed(operators, plan, hidden, imbalance)
            out += _from_experts(operators, plan, hidden, imbalance)
            out += [*_masked("combine", operators, plan, hidden), op]
            if plan.expert_tokens == "dropped" and plan.tp > 1:
                tokens = hidden * op_tokens(operators) * 2.0
                out.append(_shared("tp_gather_tokens", "all_gather", "", "tp", tokens))
            continue
        out.append(op)
    return out


def _stashed(operators: list[Operator], plan: ResolvedPlan, hidden: float, imbalance: float) -> list[Operator]:
    """Copies of what experts keep for backward, out of buffers of a fixed size into pages and back.

    A graph over the whole step gives experts that drop nothing buffers for the worst case; only rows that are there are
    kept. Inputs of both products are kept in eight bits with their scales (33 bytes for 32 elements), the first
    product's output in 16 bits. Source: Megatron-Core `transformer/moe/paged_stash.py`; recipes that capture the full
    iteration set `moe_paged_stash` (NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/perf_recipes, 2026-06).
    """
    if not (plan.fused_experts and plan.cuda_graphs == "full"):
        return []
    first, second = (op for op in operators if op.kind == Kind.GROUPED_GEMM)
    rows = first.m * imbalance
    kept = rows * ((hidden + second.k) * 33.0 / 32.0 + first.n * first.element_bytes)
    return [pointwise("expert_stash", "moe_act", "full", (2.0 * kept, 2.0 * kept), (1.0, 1.0))]


def _masked(step: str, operators: list[Operator], plan: ResolvedPlan, hidden: float) -> list[Operator]:
    """Dense products of tokens with (token, expert, place) masks, where tokens are put in order by these.

    Every token meets every place of every expert: as many places as routed rows. Backward the mask of the way in learns
    nothing, the weights of the way back do. Tensor ranks each do all of it, as their tokens are the same.

    Source: DeepSpeed `deepspeed/moe/sharded_moe.py`, `einsum("sec,sm->ecm")` and `einsum("sec,ecm->sm")`, after
    Lepikhin et al. 2020 (arXiv 2006.16668).
    """
    if plan.dispatcher != "einsum":
        return []
    tokens, places = op_tokens(operators), _places(operators, plan)
    grouped = next(op for op in operators if op.kind == Kind.GROUPED_GEMM)
    m, k = (places, tokens) if step == "dispatch" else (tokens, places)
    return [
        Operator(
            name=f"expert_{step}",
            module="permute",
            kind=Kind.GEMM,
            rule="full",
            m=m,
            n=hidden,
            k=k,
            element_bytes=grouped.element_bytes,
            trainable=step == "combine",
        )
    ]


def _places(operators: list[Operator], plan: ResolvedPlan) -> float:
    """Places of all experts that one rank's tokens go to: as many as its routed rows."""
    grouped = next(op for op in operators if op.kind == Kind.GROUPED_GEMM)
    share = plan.etp / plan.tp if plan.expert_tokens == "split" else 1.0
    return grouped.m / plan.etp * plan.tp * share


def _experts(operators: list[Operator]) -> float:
    """Experts of one rank."""
    return next(op.groups for op in operators if op.kind == Kind.GROUPED_GEMM)


def op_tokens(operators: list[Operator]) -> float:
    """Tokens of this rank before routing."""
    return next(op.m for op in operators if op.name == "router")


def _to_experts(operators: list[Operator], plan: ResolvedPlan, hidden: float, imbalance: float) -> list[Operator]:
    """What brings tokens to the ranks of their experts."""
    rows = _rows_bytes(operators, hidden, imbalance)
    out = []
    if plan.expert_tokens == "dropped" and plan.tp > 1:  # backward brings back the parts that others sent
        out.append(_shared("tp_gather_dropped", "", "all_gather", "tp", hidden * op_tokens(operators) * 2.0))
    if plan.ep > 1 and plan.dispatcher == GATHERS:
        gathered = _gathered_bytes(operators, plan, hidden)
        rows = gathered * plan.etp if plan.expert_tokens == "split" else rows
        out.append(_shared("ep_dispatch", "all_gather", "reduce_scatter", "ep", gathered))
    elif plan.ep > 1:
        out.append(_all_to_all("ep_dispatch", rows, plan))
    if plan.etp > 1 and plan.expert_tokens == "split":
        out.append(_shared("etp_gather", "all_gather", "reduce_scatter", "etp", rows))
    elif plan.etp > 1:
        if plan.expert_tokens == "dropped":
            out.append(_shared("etp_gather", "all_gather", "", "etp", rows))
        out.append(_shared("etp_input", "", "all_reduce", "etp", rows))
    return out


def _from_experts(operators: list[Operator], plan: ResolvedPlan, hidden: float, imbalance: float) -> list[Operator]:
    """What brings their results back."""
    gathers = plan.ep > 1 and plan.dispatcher == GATHERS
    gathered = _gathered_bytes(operators, plan, hidden)
    rows = _rows_bytes(operators, hidden, imbalance)
    rows = gathered * plan.etp if gathers and plan.expert_tokens == "split" else rows
    out = []
    if plan.etp > 1 and plan.expert_tokens == "split":
        out.append(_shared("etp_reduce", "reduce_scatter", "all_gather", "etp", rows))
    elif plan.etp > 1:
        backward = "all_gather" if plan.expert_tokens == "dropped" else ""
        out.append(_shared("etp_reduce", "all_reduce", backward, "etp", rows))
    if gathers:
        out.append(_shared("ep_combine", "reduce_scatter", "all_gather", "ep", gathered))
    elif plan.ep > 1:
        out.append(_all_to_all("ep_combine", rows, plan))
    return out


def _gathered_bytes(operators: list[Operator], plan: ResolvedPlan, hidden: float) -> float:
    """Bytes of the tokens of all ranks between which experts are cut, of each tensor rank its own part."""
    grouped = next(op for op in operators if op.kind == Kind.GROUPED_GEMM)
    cut = plan.tp if plan.expert_tokens == "split" and not plan.sp else 1
    return op_tokens(operators) / cut * plan.ep * hidden * grouped.element_bytes


def _over_all_tokens(op: Operator, operators: list[Operator], plan: ResolvedPlan, hidden: float) -> Operator:
    """Rows are added into zeros for all gathered tokens: forward where they come back, backward where they came from.

    Source: Megatron-Core `transformer/moe/moe_utils.py` (`unpermute`: zeros of `restore_shape`, then `scatter_add_`).
    """
    zeros = _gathered_bytes(operators, plan, hidden) * (plan.etp if plan.expert_tokens == "split" else 1)
    if op.name == "unpermute":
        return replace(op, forward_bytes=op.forward_bytes + zeros)
    if op.name == "permute":
        return replace(op, backward_bytes=op.backward_bytes + zeros)
    return op


def _rows_bytes(operators: list[Operator], hidden: float, imbalance: float) -> float:
    """Bytes of the rows that one rank's experts work on."""
    grouped = next(op for op in operators if op.kind == Kind.GROUPED_GEMM)
    return grouped.m * hidden * grouped.element_bytes * imbalance


def _all_to_all(name: str, rows: float, plan: ResolvedPlan) -> Operator:
    """Ranks that share an expert carry a part of its rows each; with replicated tokens each carries all of them."""
    size = rows if plan.expert_tokens == "replicated" else rows / plan.etp
    return Operator(
        name=name,
        module="ep_comm",
        kind=Kind.COLLECTIVE,
        rule="full",
        collective="all_to_all",
        backward_collective="all_to_all",
        axis="ep",
        size_bytes=size,
        backward_size_bytes=size,
    )


def _shared(name: str, forward: str, backward: str, axis: str, size: float) -> Operator:
    """A collective of ranks that share an expert, or a layer: routed rows gathered, partial results summed."""
    return Operator(
        name=name,
        module="ep_comm",
        kind=Kind.COLLECTIVE,
        rule="full",
        collective=forward,
        backward_collective=backward,
        axis=axis,
        size_bytes=size,
        backward_size_bytes=size,
    )
