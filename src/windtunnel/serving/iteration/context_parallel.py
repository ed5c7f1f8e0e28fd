"""Attention over several ranks: prompts cut along their tokens (cp), and a cache that the tensor axis shares (dcp).

Under cp each rank computes its share of a prompt's tokens (cut so that all have as many query-key pairs) and gathers
others' keys and values, layer by layer, those of earlier chunks too. Everything else of a layer has all its heads and
weights on each rank. A decode step computes its tokens on every rank, reads the rank's own part of the cache, and the
parts of attention are merged by their sums of exponentials.

Under dcp ranks of the tensor axis that would keep the same keys and values keep different tokens instead: a decode step
gathers the queries of its heads and merges the parts.

With `balance_prompts` the ranks of attention data parallelism compute all prompts together, each its share of the
heads: latents are gathered, outputs handed back. Prompts of unlike lengths then leave no rank waiting; iterations share
prompts evenly either way here, so that the exchange is what is left to see (Zuo et al. 2025, arXiv 2506.12708, section
4.3.1).

Sources: Liu et al. 2023 (arXiv 2310.01889) for rings; Yang et al. 2024 (arXiv 2411.01783) for keys and values passed
between ranks while serving, and their balanced cut; vLLM, `--decode-context-parallel-size`.
"""

from __future__ import annotations

from dataclasses import replace

from windtunnel.cost.serving import ServingCoefficients
from windtunnel.errors import ProblemList
from windtunnel.serving.iteration.attention import FULL, cached_bytes, layer_counts
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingPlan

PARTIAL_BYTES = 4.0
"""Bytes of one element of a part of attention, and of its sum: single precision until merged."""


def check_context(model: ModelSpec, plan: ServingPlan, where: str, problems: ProblemList) -> None:
    """What cannot be cut along tokens here."""
    kinds = model.layer_kinds()
    if model.layers:
        _check_composed(model, plan, where, problems)
        return
    if plan.cp > 1:
        if any(k not in FULL for k in kinds):
            rule = f"must be 1: layers of {model.name} keep a window or a state, which is not cut along tokens here"
            problems.add(f"{where}.cp", plan.cp, rule)
        if plan.dp > 1:
            problems.add(f"{where}.cp", plan.cp, f"must be 1 with dp {plan.dp}: one or the other cuts prompts here")
    if plan.balance_prompts:
        if any(k not in FULL for k in kinds):
            rule = f"must be false: layers of {model.name} keep a window or a state, which is not cut by heads here"
            problems.add(f"{where}.balance_prompts", True, rule)
        if plan.dp == 1:
            problems.add(f"{where}.balance_prompts", True, "must be false: no ranks share prompts (dp 1)")
        elif model.num_attention_heads % (plan.tp * plan.dp):
            rule = f"must be false: tp · dp = {plan.tp * plan.dp} do not divide {model.num_attention_heads} heads"
            problems.add(f"{where}.balance_prompts", True, rule)
    if plan.dcp > 1:
        heads = 1 if model.is_mla else model.attention_dims(windowed=False)[1]
        copies = max(int(plan.tp // heads), 1)
        if copies % plan.dcp:
            rule = f"must divide the {copies} copies of each key and value: tp {plan.tp} over {heads} cached heads"
            problems.add(f"{where}.dcp", plan.dcp, rule)


def _check_composed(model: ModelSpec, plan: ServingPlan, where: str, problems: ProblemList) -> None:
    """Add what is not cut along tokens, or by heads over ranks, where layers are written one by one."""
    rule = f"layers of {model.name} are written one by one, whose attention is not cut so here"
    for field in ("cp", "dcp"):
        if (given := getattr(plan, field)) > 1:
            problems.add(f"{where}.{field}", given, f"must be 1: {rule}")
    if plan.balance_prompts:
        problems.add(f"{where}.balance_prompts", True, f"must be false: {rule}")


def link(cluster: ClusterSpec, shape: Shape, ranks: int, c: ServingCoefficients) -> tuple[float, float]:
    """(bytes per second of one device, seconds of one exchange) between ranks of an instance."""
    if ranks * shape.tp <= cluster.scale_up_domain:
        return c.all_to_all_fraction * cluster.scale_up.bytes_per_s, c.all_reduce_s
    return c.all_to_all_fraction * cluster.nic_bytes_per_s_per_device, c.all_to_all_s


def _handed(model: ModelSpec, shape: Shape) -> float:
    """Bytes of one prompt token and layer that a rank takes in where heads are cut over dp ranks, in 16 bits.

    Latents of queries, keys and values go to every rank; queries, keys and values of other models by heads; outputs of
    a rank's heads come back to the rank of the token.
    """
    ranks, heads = float(shape.dp), model.num_attention_heads / shape.tp
    if model.is_mla:
        latents = float(model.q_lora_rank or 0) + float(model.kv_lora_rank or 0) + model.qk_rope_head_dim
        if not model.q_lora_rank:
            latents += heads / ranks * (model.qk_nope_head_dim + model.qk_rope_head_dim)
        return 2.0 * (latents + heads / ranks * model.v_head_dim)
    size, cached, projections = model.attention_dims(windowed=False)
    return 2.0 * size * (2.0 * heads + projections * max(cached / shape.tp, ranks)) / ranks


def with_context(
    iteration: IterationModel, model: ModelSpec, cluster: ClusterSpec, shape: Shape, c: ServingCoefficients, budget: int
) -> IterationModel:
    """An iteration model with what cp and dcp add; its attention is cut already (`attention_costs`).

    Args:
        iteration: without them.
        model: what is served.
        cluster: where.
        shape: axes and formats of the instance.
        c: coefficients of the engine on the device.
        budget: tokens of a chunk; what earlier chunks keep is gathered once a chunk.
    """
    if shape.cp == shape.dcp == 1 and not shape.balance_prompts:
        return iteration
    layers, _, _ = layer_counts(model)
    heads = model.num_attention_heads / shape.tp
    value = float(model.kv_lora_rank or 0) if model.is_mla else model.attention_dims(windowed=False)[0]
    query = value + (model.qk_rope_head_dim if model.is_mla else 0.0)
    token_s = pair_s = sequence_s = base_s = 0.0
    if shape.cp > 1:
        rate, start = link(cluster, shape, shape.cp, c)
        others = (shape.cp - 1.0) / shape.cp
        gathered = layers * cached_bytes(model, replace(shape, cp=1), windowed=False) * others / rate
        token_s, pair_s = gathered, gathered / budget
        sequence_s += layers * 2.0 * others * heads * (value + 1.0) * PARTIAL_BYTES / rate
        base_s += layers * start
    if shape.balance_prompts:
        rate, start = link(cluster, shape, shape.dp, c)
        token_s += layers * (shape.dp - 1.0) / shape.dp * _handed(model, shape) / rate
        base_s += layers * 2.0 * start
    if shape.dcp > 1:
        rate, start = link(cluster, replace(shape, tp=1), shape.tp, c)
        others = (shape.dcp - 1.0) / shape.dcp
        whole = shape.dcp * heads
        sequence_s += layers * others * whole * (2.0 * query + (value + 1.0) * PARTIAL_BYTES) / rate
        base_s += layers * 2.0 * start
    return replace(
        iteration,
        base_s=iteration.base_s + base_s,
        prefill_token_s=iteration.prefill_token_s + token_s,
        prefill_pair_s=iteration.prefill_pair_s + pair_s,
        per_sequence_s=iteration.per_sequence_s + sequence_s,
        cp=shape.cp,
    )
