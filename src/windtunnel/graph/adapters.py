"""Low-rank adapters next to frozen products: their outputs, and what they keep for backward.

An adapter of rank r next to a product of k inputs and n outputs has r · (k + n) weights. Where the adapter computes in
another format than its input, or drops inputs at random, it keeps a copy of its own; without that it reads the tensor
that the product reads. DoRA multiplies both branches by a trained magnitude for each output, so both results stay. An
orthogonal adapter rotates the product's input by blocks of b, each made of b · (b − 1) / 2 weights.

Source: Hu et al. 2021 (arXiv 2106.09685), section 4; Liu et al. 2024 (arXiv 2402.09353), section 4.3; Qiu et al. 2025
(arXiv 2506.19847), section 4; PEFT 0.17 `tuners/lora/layer.py` (`Linear.forward`), `tuners/lora/dora.py`,
`tuners/oft/layer.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from windtunnel.graph.operators import Block, Kind, Operator, Rule, Tensor

PREFIX = "adapter_"
"""Begins the name of a tensor that an adapter keeps."""
MODULE_OF = {"q": "qkv", "k": "qkv", "v": "qkv", "gate": "fc1", "up": "fc1", "experts": "moe"}
"""Part of a joint product, or a group of products → module of its operators; other targets are modules themselves."""
_MASK_BYTES = 1.0
_PRODUCTS = (Kind.GEMM, Kind.GROUPED_GEMM)


def with_adapters(block: Block, rank: int, targets: Collection[str], *, dropout: bool, cast: bool, dora: bool) -> Block:
    """The block with adapters next to its products, and without tensors that only frozen products would read again.

    Args:
        block: A layer, unsharded.
        rank: Rank of every adapter; 0 for adapters that rotate inputs.
        targets: As in `LoraSpec.targets`.
        dropout: Adapters drop inputs: each keeps the result, and a mask of one byte an element.
        cast: Adapters compute in another format than their input comes in: each keeps its own 16-bit copy.
        dora: Adapters have magnitudes: the results of product and adapter stay for the magnitudes' gradients.
    """
    operators = tuple(replace(op, adapters=_outputs(op, block, targets)) for op in block.operators)
    own = dropout or cast
    adapted = set() if own else {op.module for op in operators if op.adapters}
    frozen = {op.module for op in operators if op.kind in _PRODUCTS} - adapted
    kept = [t for t in block.tensors if not t.consumers or not frozen.issuperset(t.consumers)]
    for op in operators:
        if op.adapters:
            kept += _kept(op, rank, dropout=dropout, own=own, dora=dora)
    return replace(block, operators=operators, tensors=tuple(kept))


def adapter_params(op: Operator, rank: int, *, dora: bool, rotation: int | None = None) -> float:
    """Trained weights of the adapters of a product: two thin matrices each, and DoRA's magnitudes; or rotations."""
    if rotation is not None:
        return op.groups * len(op.adapters) * op.k * (rotation - 1.0) / 2.0
    outputs = op.n * sum(op.adapters)
    return op.groups * (rank * (op.k * len(op.adapters) + outputs) + (outputs if dora else 0.0))


def _kept(op: Operator, rank: int, *, dropout: bool, own: bool, dora: bool) -> list[Tensor]:
    """Tensors that the adapters of a product keep for backward."""
    count, outputs = len(op.adapters), op.m * op.n * sum(op.adapters)
    inward: Rule = "features" if op.rule in ("row", "expert_row") else "sequence"
    outward: Rule = "sequence" if op.rule in ("row", "expert_row") else "features"
    sizes: list[tuple[str, float, Rule, float]] = []
    if rank:
        sizes.append(("inner", count * rank * op.m, "full", op.element_bytes))
    if own:
        sizes.append(("input", count * op.m * op.k, inward, op.element_bytes))
    if dropout:
        sizes.append(("mask", count * op.m * op.k, inward, _MASK_BYTES))
    if dora:
        sizes.append(("branches", 2.0 * outputs, outward, op.element_bytes))
    return [
        Tensor(f"{PREFIX}{op.name}_{name}", size, rule, width, producer=op.module, consumers=(op.module,))
        for name, size, rule, width in sizes
    ]


def _outputs(op: Operator, block: Block, targets: Collection[str]) -> tuple[float, ...]:
    """Share of a product's outputs that each adapter next to it makes."""
    if op.kind not in _PRODUCTS or op.number_class != "linear":
        return ()
    named = {MODULE_OF.get(target, target) for target in targets}
    if op.module not in named:
        return ()
    if op.module in targets or op.module == "moe":
        parts = {"": 1.0}
    else:
        parts = _parts(op, block)
    return tuple(share for name, share in parts.items() if share > 0.0 and (not name or name in targets))


def _parts(op: Operator, block: Block) -> dict[str, float]:
    """Parts of a joint product → share of its outputs."""
    if op.module == "fc1":
        last = next((o for o in block.operators if o.name == "fc2"), None)
        gated = last is not None and op.n > 1.5 * last.k
        return {"gate": 0.5, "up": 0.5} if gated else {"up": 1.0}
    core = next((o for o in block.operators if o.kind == Kind.ATTENTION), None)
    if op.name != "qkv" or core is None:
        return {"q": 1.0} if op.name.startswith(("q", "attn")) else {"k": 1.0}
    q = min(core.heads * core.d_qk / op.n, 1.0)
    k = min(core.kv_heads * core.d_qk / op.n, 1.0 - q)
    return {"q": q, "k": k, "v": max(1.0 - q - k, 0.0)}
