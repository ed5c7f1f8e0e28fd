"""Price every block kind on one rank: its operators are cut by the plan, lowered to launches and simulated."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from windtunnel import graph
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.graph import Batch, Block, Kind, ModelGraph, Operator
from windtunnel.network.groups import GroupPlacement
from windtunnel.network.model import NetworkModel
from windtunnel.parallel.expert import FUSED_DISPATCHERS
from windtunnel.parallel.precision import Recipe, kept_bytes_scale, quantised_gathers, recipe
from windtunnel.parallel.recompute import Recomputed, recompute_block, with_collective_results
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.parallel.tensor import tensor_bytes
from windtunnel.pricing.launches import Lowering, Pricing
from windtunnel.pricing.segments import simulate_segments
from windtunnel.program.segment import Segment, SegmentTime
from windtunnel.specs.number_formats import MATRIX_FORMAT
from windtunnel.specs.plan import Recompute
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.stage_costs.adapters import adapted_graph, adapter_bytes, lora_of
from windtunnel.training.stage_costs.autocast import add_casts, casts_weights
from windtunnel.training.stage_costs.eager_operators import Eager
from windtunnel.training.stage_costs.fsdp_copies import add_copies
from windtunnel.training.stage_costs.host_launches import host_work
from windtunnel.training.stage_costs.local_block import is_compiled, local_block, style_of
from windtunnel.training.stage_costs.pricing_cache import BlockCost, PricedBlocks
from windtunnel.training.stage_costs.step_inputs import StepInputs

HEAD = "logits and head"
"""Kind of kept memory that only the model's end has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCase:
    """One way to cut and run the blocks of a model.

    Whatever of a plan is read here must be part of what `PricingCache.blocks` tells plans apart by.
    """

    inputs: StepInputs
    plan: ResolvedPlan
    network: NetworkModel
    groups: dict[str, GroupPlacement]
    """Axis → where the ranks of one group sit."""
    copies: tuple[float, float]
    """Bytes per parameter that FSDP copies forward and backward."""
    split_backward: bool
    """Whether weight gradients are instructions of their own."""


@dataclass(slots=True)
class _Lowered:
    """Block kinds of a model, the embedding and the head as segments of launches."""

    names: list[str]
    blocks: list[Block]
    operators: list[list[Operator]]
    """One rank's operators of each block."""
    recomputed: list[Recomputed]
    """What each block keeps and drops; then the same without recomputation, where only some layers recompute."""
    segments: list[Segment]
    """F, B, W of each block; then B, W of what keeps everything, where only some layers recompute."""


def price_blocks(case: BlockCase) -> PricedBlocks:
    """Lower, price and simulate every block kind on one rank."""
    inputs, plan = case.inputs, case.plan
    training = inputs.training
    targets = training.target_length(inputs.model.family)
    batch = Batch.train(plan.mbs, training.seq_len, document=training.mean_document_length, decoder_seq_len=targets)
    model_graph = _model_graph(case, batch)
    pricing = _pricing(case)
    lowered = _lower(case, model_graph, batch, pricing)
    segments = lowered.segments
    for technique in inputs.techniques:
        segments = [technique.on_segment(segment, inputs.cluster) for segment in segments]
    style = style_of(inputs.behaviour, training, plan)
    eager = Eager.of(inputs.behaviour, training, plan, batch)
    host, sync, drained = host_work(segments, inputs.model, model_graph, plan, inputs.coefficients, style, eager)
    times = simulate_segments(segments, inputs.cluster, inputs.coefficients, host, sync, drained)
    costs = _costs(case, lowered, times, pricing.recipe)
    plain: dict[str, BlockCost] = {}
    if plan.recompute.num_layers is not None:
        plain = _costs_without_recomputation(case, lowered, times, costs, pricing.recipe)
    return PricedBlocks(model_graph, batch, costs, plain, tuple(segments), tuple(times))


def _model_graph(case: BlockCase, batch: Batch) -> ModelGraph:
    """The model's operators, as techniques, LoRA and recomputation change them."""
    inputs, plan = case.inputs, case.plan
    model, training, behaviour = inputs.model, inputs.training, inputs.behaviour
    built = graph.build(
        model,
        batch,
        style=style_of(behaviour, training, plan),
        unfused_attention=plan.attention == "unfused",
        fused_loss=plan.fused_loss,
        padded_vocab=plan.padded_vocab,
        element_bytes=behaviour.element_bytes,
    )
    for technique in inputs.techniques:
        built = technique.on_graph(built)
    lora = lora_of(training)
    if lora is not None:
        built = replace(built, blocks=adapted_graph(built, lora, behaviour))
    if plan.recompute.keep_collectives and plan.recompute.policy == "full":
        brought = {
            kind: with_collective_results(block, local_block(block, model, training, plan, batch.tokens), plan.cp)
            for kind, block in built.blocks.items()
        }
        built = replace(built, blocks=brought)
    return built


def _pricing(case: BlockCase) -> Pricing:
    """What launches are priced with."""
    inputs, plan = case.inputs, case.plan
    model, training, behaviour = inputs.model, inputs.training, inputs.behaviour
    return Pricing(
        device=inputs.cluster.device,
        coefficients=inputs.coefficients,
        recipe=recipe(
            training.precision,
            inputs.coefficients,
            compiled=is_compiled(behaviour, training),
        ),
        attention=plan.attention,
        network=case.network,
        groups=case.groups,
        weight_accumulate_bytes=_accumulate_bytes(behaviour, training),
        accumulate_kernel_bytes=_accumulate_kernel_bytes(behaviour, training),
        topk=float(max(model.num_experts_per_tok, 1)),
        rowwise=training.precision == "fp8_rowwise",
        lora=lora_of(training),
        adapter_bytes=adapter_bytes(behaviour),
        two_level_a2a=plan.dispatcher in FUSED_DISPATCHERS,
        overlap_a2a=plan.overlap_moe_a2a and plan.m > 1,
        fused_grouped_quantise=plan.ep > 1 and plan.dispatcher in FUSED_DISPATCHERS,
        fused_experts=plan.fused_experts,
        looped_experts=behaviour.experts_looped,
        expert_nodes=plan.switches.expert_nodes,
        local_share=training.expert_load.local,
    )


def _lower(case: BlockCase, model_graph: ModelGraph, batch: Batch, pricing: Pricing) -> _Lowered:
    """One rank's operators of every block as segments of priced launches."""
    inputs, plan, lowering = case.inputs, case.plan, Lowering(pricing)
    training, behaviour = inputs.training, inputs.behaviour
    names = [*model_graph.blocks, "embedding", "head"]
    blocks = [*model_graph.blocks.values(), model_graph.embedding, model_graph.head]
    lowered = _Lowered(names, blocks, [], [], [])
    early_stop = behaviour.early_stop if plan.recompute.early_stop is None else plan.recompute.early_stop
    eager_merge = behaviour.eager_ring_merge
    for name, block in zip(names, blocks, strict=True):
        operators = local_block(block, inputs.model, training, plan, batch.tokens, eager_merge=eager_merge)
        if training.precision in behaviour.tp_gathers_quantised:
            operators = quantised_gathers(operators, pricing.recipe, plan)
        recomputed = recompute_block(
            block,
            operators,
            plan.recompute,
            early_stop=early_stop,
            named=behaviour.named_remat,
            kept_products=behaviour.saves_quantised or MATRIX_FORMAT[training.precision] != "fp4",
        )
        lowered.operators.append(operators)
        lowered.recomputed.append(recomputed)
        backward, weights = lowering.backward(name, operators, recomputed, split=case.split_backward)
        lowered.segments += [lowering.forward(name, operators), backward, weights]
    if plan.recompute.num_layers is not None:  # layers beyond the given number keep everything
        for name, block, operators in zip(list(model_graph.blocks), blocks, list(lowered.operators), strict=False):
            recomputed = recompute_block(block, operators, Recompute())
            backward, weights = lowering.backward(name, operators, recomputed, split=case.split_backward)
            lowered.segments += [backward, weights]
            lowered.recomputed.append(recomputed)
    lowering.finish()
    _add_weight_passes(case, lowered)
    return lowered


def _add_weight_passes(case: BlockCase, lowered: _Lowered) -> None:
    """Add what passes do to weights next to products: FSDP's copies and autocast's casts."""
    inputs = case.inputs
    device, coefficients = inputs.cluster.device, inputs.coefficients
    for segment in (segment for segment in lowered.segments if segment.direction != "W"):
        operators = lowered.operators[lowered.names.index(segment.name)]
        per_param = case.copies["FB".index(segment.direction)]
        add_copies(segment, sum(op.params for op in operators), per_param, device, coefficients)
        if casts_weights(inputs.behaviour, case.plan):
            add_casts(segment, operators, device, coefficients, frozen=inputs.training.phase == "lora")


def _costs(case: BlockCase, lowered: _Lowered, times: list[SegmentTime], recipe_used: Recipe) -> dict[str, BlockCost]:
    """Block kind (and `embedding`, `head`) → cost of one block."""
    costs: dict[str, BlockCost] = {}
    for i, (name, block) in enumerate(zip(lowered.names, lowered.blocks, strict=True)):
        forward, backward, weights = times[3 * i : 3 * i + 3]
        own = (forward, backward, weights if case.split_backward else _nothing(times[0]))
        cost = block_cost(block, lowered.operators[i], lowered.recomputed[i], case.plan, own, recipe_used)
        costs[name] = replace(cost, segments=(3 * i, 3 * i + 1, 3 * i + 2))
    return costs


def _costs_without_recomputation(
    case: BlockCase,
    lowered: _Lowered,
    times: list[SegmentTime],
    costs: dict[str, BlockCost],
    recipe_used: Recipe,
) -> dict[str, BlockCost]:
    """Block kind → cost of one block that keeps everything; forward is that of the block that recomputes."""
    plain: dict[str, BlockCost] = {}
    first = 3 * len(lowered.names)
    for j, name in enumerate(lowered.names[:-2]):
        at = first + 2 * j
        backward, weights = times[at : at + 2]
        own = (costs[name].forward, backward, weights if case.split_backward else _nothing(times[0]))
        recomputed = lowered.recomputed[len(lowered.names) + j]
        cost = block_cost(lowered.blocks[j], lowered.operators[j], recomputed, case.plan, own, recipe_used)
        plain[name] = replace(cost, segments=(3 * j, at, at + 1))
    return plain


def _nothing(time: SegmentTime) -> SegmentTime:
    """The time of a segment that does nothing."""
    return replace(
        time,
        device_s=0.0,
        host_s=0.0,
        total_s=0.0,
        busy_s={},
        sm_s=0.0,
        hbm_bytes=0.0,
        up_bytes=0.0,
        out_bytes=0.0,
        flop=0.0,
        sync_s=0.0,
    )


def _accumulate_bytes(behaviour: Behaviour, training: TrainingSpec) -> float:
    """Bytes per weight that gradient accumulation adds to a weight gradient's product: its buffer, read and written."""
    if not behaviour.fused_accumulation:
        return 0.0
    buffer = behaviour.grad_buffer_bytes
    if training.precision == "fp16" and behaviour.fp16_grad_bytes:
        buffer = behaviour.fp16_grad_bytes
    return 2.0 * buffer if behaviour.style in ("fused", "megatron_2021") else buffer


def _accumulate_kernel_bytes(behaviour: Behaviour, training: TrainingSpec) -> float:
    """Bytes per weight of a separate accumulation: the gradient read, the buffer read and written.

    The buffer has the width in which gradients are reduced (Megatron-LM v2.x, `main_grad` of its local DDP). A cast to
    that width beforehand is written and read once more.
    """
    if behaviour.fused_accumulation:
        return 0.0
    buffer = behaviour.wire_bytes(training.precision, training.grad_reduce_precision)
    casts = behaviour.accumulation_casts and training.precision == "bf16"
    return behaviour.element_bytes + (4.0 if casts else 2.0) * buffer


def block_cost(
    block: Block,
    operators: list[Operator],
    recomputed: Recomputed,
    plan: ResolvedPlan,
    times: tuple[SegmentTime, SegmentTime, SegmentTime],
    recipe_used: Recipe,
) -> BlockCost:
    """The cost of one block on one rank: its segments, what it keeps for backward, and its parameters."""
    kept: defaultdict[str, float] = defaultdict(float)
    for tensor in recomputed.kept:
        kept[_memory_kind(tensor.name)] += tensor_bytes(tensor, plan) * kept_bytes_scale(tensor, recipe_used)
    dropped = sum(tensor_bytes(tensor, plan) for tensor in recomputed.dropped)
    sizes = [tensor_bytes(tensor, plan) for tensor in block.tensors]
    expert = sum(op.params for op in operators if op.kind == Kind.GROUPED_GEMM)
    dense = sum(op.params for op in operators) - expert
    shapes = {
        (op.n, op.k): op.n * op.k for op in operators if op.kind == Kind.GEMM and op.number_class in ("linear", "head")
    }
    largest = max(sizes, default=0.0)
    backward = dropped + (largest if block.kind != "head" else 0.0)
    forward_time, backward_time, weight_time = times
    return BlockCost(
        forward=forward_time,
        backward=backward_time,
        weight=weight_time,
        kept_bytes=dict(kept),
        transient_backward_bytes=backward,
        dense_params=dense,
        expert_params=expert,
        largest_weights=shapes,
    )


def _memory_kind(name: str) -> str:
    """Kind of memory that a kept tensor counts as."""
    if name in ("logits", "final_norm_out", "final_norm_input"):
        return HEAD
    if name in ("softmax_out", "dropout_out", "dropout_mask"):
        return "attention scores"
    return "activations"
