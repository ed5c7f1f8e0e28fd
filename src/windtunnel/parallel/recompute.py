"""Activation recomputation: what runs again in backward, and which tensors are not kept.

Sources: Chen et al. 2016 (arXiv 1604.06174); Korthikanti et al. 2022 (arXiv 2205.05198), section 5; Megatron-Core's
`recompute_modules` discard a module's output as well (its `CheckpointWithoutOutput`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from windtunnel.graph import Block, Kind, Operator, Tensor
from windtunnel.specs.plan import Recompute

_MODULE_SETS: dict[str, tuple[str, ...]] = {
    "attn": ("norm:attn", "qkv", "rope", "core_attn", "proj", "mla_up_proj"),
    "mlp": ("fc1", "mlp_act", "fc2"),
    "moe": ("router", "permute", "moe", "moe_act", "shared_experts", "ep_comm"),
}
RESULT = "_result"
"""Ends the name of a tensor that holds what a collective brought."""
_FINAL = frozenset({"fc2", "shared_fc2", "expert_fc2", "unpermute", "ep_combine", "out_proj"})
_DENSE_END = frozenset({"fc2", "shared_fc2"})
_DISCARDS_OUTPUT = frozenset({"norm", "mlp_act", "moe_act", "mla_up_proj"})


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Decision for one block: share of each operator that runs again, and tensors that are dropped until backward."""

    repeats: dict[str, float]
    """Operator name → share recomputed (0 to 1)."""
    kept: tuple[Tensor, ...]
    dropped: tuple[Tensor, ...]


def recomputing(
    layers: Sequence[int], stage_of: Sequence[int], num_layers: int | Sequence[int] | None
) -> list[tuple[bool, ...]]:
    """Which layers of each virtual stage recompute: the first ones of a stage, or of a virtual stage.

    Args:
        layers: layers of each virtual stage in depth order.
        stage_of: pipeline stage of each virtual stage.
        num_layers: `Recompute.num_layers`: a count for every stage, a list by stage or by virtual stage, or all.
    """
    if num_layers is None:
        return [(True,) * count for count in layers]
    counts: list[int] = [num_layers] if isinstance(num_layers, int) else list(num_layers)
    if len(counts) == len(layers) and len(counts) > 1:
        return [tuple(i < again for i in range(count)) for count, again in zip(layers, counts, strict=True)]
    remaining = dict(enumerate(counts)) if len(counts) > 1 else dict.fromkeys(stage_of, counts[0])
    out = []
    for count, stage in zip(layers, stage_of, strict=True):
        out.append(tuple(i < remaining[int(stage)] for i in range(count)))
        remaining[int(stage)] -= min(count, remaining[int(stage)])
    return out


def recompute_block(
    block: Block,
    operators: list[Operator],
    policy: Recompute,
    *,
    early_stop: bool = False,
    named: bool = False,
    compiled: bool = False,
    kept_products: bool = True,
) -> Recomputed:
    """Apply a policy to one block. `operators` are the local ones, collectives included.

    With `early_stop` recomputation of a whole block ends once the last tensor that backward needs exists: the final
    projection and its reduction do not run again (PyTorch's non-reentrant `checkpoint`, default since 2.1).
    With `named` a list of modules drops everything that those modules write (`jax.checkpoint_policies.
    save_only_these_names`); else an output that a module outside the list reads is kept.
    In a `compiled` block per-operator checkpointing keeps only what backward reads (see `_per_op`), and no matrix
    product without `kept_products`.
    """
    tensors = block.tensors
    if policy.policy == "none" or block.kind in ("embedding", "head"):
        return Recomputed({}, tensors, ())
    if policy.policy == "full":
        kept = tuple(t for t in tensors if t.producer == "" or t.name.endswith(RESULT))
        again = operators
        if early_stop:
            producers = {t.producer for t in tensors if t.producer}
            last = max((i for i, op in enumerate(operators) if op.module in producers), default=-1)
            # a module may hold several operators; its tensors are complete after the last but a final projection
            while last > 0 and operators[last].name in _FINAL:
                last -= 1
            again = operators[: last + 1]
        repeats = {
            op.name: 1.0
            for op in again
            if op.recompute_repeats and not (policy.keep_collectives and op.kind == Kind.COLLECTIVE)
        }
        return Recomputed(repeats, kept, tuple(t for t in tensors if t not in kept))
    modules: set[str] = set()
    for name in policy.modules:
        modules |= set(_MODULE_SETS.get(name, (name,)))
    if "per_op" in modules:
        return _per_op(tensors, operators, compiled, kept_products)
    if "norm:attn" in modules:
        modules.add("norm")
    if named and "fc2" in modules:  # a policy by names treats experts as it does the dense network
        modules |= set(_MODULE_SETS["moe"])
    repeats = {
        op.name: 1.0
        for op in operators
        if op.module in modules
        or (op.kind == Kind.COLLECTIVE and op.recompute_repeats and _beside(op, operators) in modules)
    }
    if named:  # nothing reads the block's output again
        repeats = {name: share for name, share in repeats.items() if name not in _DENSE_END}
        modules.add("rope")  # queries and keys are named once, after rotation
    dropped = tuple(
        t
        for t in tensors
        if t.producer in modules and (named or t.producer in _DISCARDS_OUTPUT or all(c in modules for c in t.consumers))
    )
    return Recomputed(repeats, tuple(t for t in tensors if t not in dropped), dropped)


def _beside(op: Operator, operators: list[Operator]) -> str:
    return next((o.module for o in operators if o.name == op.overlap_with), "")


def _per_op(tensors: tuple[Tensor, ...], operators: list[Operator], compiled: bool, kept_products: bool) -> Recomputed:
    """Per-operator selective checkpointing: attention and every second matrix product are kept, the rest runs again.

    Products in order: q (kept), k, v (kept), out, gate (kept), up, down (kept). Eager code stores the result of `down`,
    which nothing reads until the block's checkpoint ends (`mlp_input` stands for it here); a compiler that partitions
    the block sees that backward does not need it. Source: torchtitan `apply_ac`, its policy of every second `mm`.
    """
    sizes = {t.name: t.elements for t in tensors}
    heads = sizes.get("query", 0.0) + sizes.get("key_value", 0.0)
    shares = {"qkv": 0.5 * sizes.get("key_value", 0.0) / heads if heads else 0.5, "proj": 1.0, "fc1": 0.5, "fc2": 0.0}
    if sizes.get("fc1_out", 0.0) <= sizes.get("act_out", 0.0):  # one product before the activation, and it is kept
        shares["fc1"] = 0.0
    if not kept_products:
        shares = {"fc2": 0.0}
    repeats: dict[str, float] = {}
    for op in operators:
        if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
            repeats[op.name] = shares.get(op.name, 0.5 if kept_products else 1.0)
        elif op.kind in (Kind.POINTWISE, Kind.SCAN) or (op.kind == Kind.COLLECTIVE and op.recompute_repeats):
            repeats[op.name] = 1.0
    kept, dropped = [], []
    for t in tensors:
        if t.producer in ("", "core_attn") or (
            kept_products and (t.name == "query" or (t.name == "mlp_input" and not compiled))
        ):
            kept.append(t)
        elif kept_products and t.name in ("key_value", "fc1_out"):
            half = t.elements / 2
            kept.append(Tensor(t.name, half, t.rule, t.element_bytes, t.producer, t.consumers))
            dropped.append(Tensor(t.name, half, t.rule, t.element_bytes, t.producer, t.consumers))
        else:
            dropped.append(t)
    return Recomputed(repeats, tuple(kept), tuple(dropped))


def with_collective_results(block: Block, operators: list[Operator], cp: int) -> Block:
    """The block with what its forward collectives bring as tensors that stay from forward to backward.

    Source: Singh et al. 2023 (arXiv 2303.06318), communication-aware checkpointing.
    """
    brought, module = [], operators[0].module
    for op in operators:
        if op.kind != Kind.COLLECTIVE:
            module = op.module
        elif op.collective and op.recompute_repeats:
            size = op.size_bytes * cp / 2.0
            brought.append(Tensor(op.name + RESULT, size, "full", producer=module, consumers=(module,)))
    return replace(block, tensors=(*block.tensors, *brought))
