"""Per virtual stage: seconds, work, memory and parameters, from segments that are simulated once per block kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windtunnel import graph
from windtunnel.arrays import Floats, Int32s
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.expert_load import ExpertLoad, slowest
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.graph import STYLES, Batch, Block, Kind, ModelGraph, Operator, Style
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import GroupPlacement, Mesh
from windtunnel.network.model import NetworkModel
from windtunnel.parallel.branches import is_parallel, one_exchange
from windtunnel.parallel.context import context_parallel
from windtunnel.parallel.expert import FUSED_DISPATCHERS, expert_parallel
from windtunnel.parallel.precision import MATRIX_FORMAT, Recipe, kept_bytes_scale, quantised_gathers, recipe
from windtunnel.parallel.recompute import Recomputed, recompute_block, recomputing, with_collective_results
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.parallel.tensor import tensor_bytes, tensor_parallel
from windtunnel.pricing.launches import Lowering, Pricing
from windtunnel.pricing.segments import simulate_segments
from windtunnel.program.comm_work import CommWork
from windtunnel.program.segment import Segment, SegmentTime
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import Recompute
from windtunnel.specs.workload import LoraSpec, TrainingSpec
from windtunnel.techniques.base import Applied
from windtunnel.training.stage_costs.autocast import add_casts, casts_weights
from windtunnel.training.stage_costs.dp_groups import replicas_of
from windtunnel.training.stage_costs.fsdp_copies import add_copies, copy_bytes
from windtunnel.training.stage_costs.host_launches import host_work
from windtunnel.training.stage_costs.pricing_cache import BlockCost, BlockSum, PricedBlocks, PricingCache

HEAD = "logits and head"
"""Kind of kept memory that only the model's end has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCosts:
    """Everything the step program needs. Arrays over virtual stages in depth order have shape (K,), K = pp · vpp."""

    work: CommWork
    """(3, K): seconds of F, B, W of one micro-batch, ends included, and their work on shared rates."""
    head_s: Floats
    """(3,): the head's part of the last virtual stage."""
    embedding_s: Floats
    layers: Int32s
    busy_s: list[list[dict[str, float]]]
    """[direction][k] → class of time → seconds."""
    kept_bytes: list[dict[str, float]]
    transient_bytes: Floats
    """(3, K)."""
    dense_params: Floats
    expert_params: Floats
    layer_params: float
    """Largest layer's parameters on one rank (unsharded by data parallelism)."""
    hardware_flop: float
    """Of one micro-batch over all ranks of one model replica."""
    p2p_bytes: float
    scatter_gather: bool
    graph: ModelGraph
    network: NetworkModel
    mesh: Mesh
    dp_place: GroupPlacement
    expert_dp_place: GroupPlacement
    dummy_wgrad_bytes: Floats
    """(p,): buffers that stand in for weight gradients, one per distinct dense weight shape of a stage (Megatron)."""
    trainable_share: float
    """Trainable over all parameters: 1, or the adapters' share under LoRA."""
    block_kinds: list[str]

    @property
    def seconds(self) -> Floats:
        """(3, K): seconds of F, B, W of one micro-batch, ends included."""
        return self.work.seconds

    def gap_share(self) -> Floats:
        """(3, K): share of each instruction in which its compute stream only waits (exposed transfers, host)."""
        out = np.zeros_like(self.seconds)
        for d in range(3):
            for k, busy in enumerate(self.busy_s[d]):
                if self.seconds[d, k] > 0:
                    out[d, k] = sum(busy.get(tag, 0.0) for tag in ("tp", "cp", "ep", "host")) / self.seconds[d, k]
        return out

    factor: Floats | None = None
    """(3, K, m): seconds of each micro-batch over `seconds`, where they differ (`training.lengths`)."""
    segments: tuple[Segment, ...] = ()
    """What the sums were made from: F, B, W of each block kind, the embedding, the head; then B, W of what is kept."""
    segment_times: tuple[SegmentTime, ...] = ()
    """Of each segment; zero for weight gradients that run inside the backward segment."""
    uses: tuple[tuple[tuple[tuple[int, int, int], float], ...], ...] = ()
    """[k] → (segments F, B, W; how often a micro-batch runs them), summing to `seconds[:, k]`."""
    costs: dict[str, BlockCost] = field(default_factory=dict)
    """Block kind (and `embedding`, `head`) → cost of one block."""
    techniques: tuple[Applied, ...] = ()
    """That act, for what is priced later: passes that run in pairs."""
    plain: dict[str, BlockCost] = field(default_factory=dict)
    """The same without recomputation, where only some layers of a stage recompute."""


def _groups(mesh: Mesh, plan: ResolvedPlan) -> dict[str, GroupPlacement]:
    groups = {}
    if plan.tp > 1:
        groups["tp"] = mesh.placement("tp")
    if plan.cp > 1:
        a2a = {"all_to_all": plan.cp, "hybrid": plan.cp_all_to_all}.get(plan.cp_kind, 1)
        stride = mesh.strides["cp"]
        if a2a > 1:
            groups["cp_a2a"] = mesh.strided(a2a, stride)
        if plan.cp // a2a > 1:
            groups["cp_ring"] = mesh.strided(plan.cp // a2a, stride * a2a)
        groups["cp"] = mesh.placement("cp")
    if plan.ep > 1:
        groups["ep"] = mesh.strided(plan.ep, plan.etp)
    if plan.etp > 1:
        groups["etp"] = mesh.strided(plan.etp, 1)
    return groups


def local_block(
    block: Block,
    model: ModelSpec,
    training: TrainingSpec,
    plan: ResolvedPlan,
    tokens: float,
    *,
    eager_merge: bool = False,
) -> list[Operator]:
    """Operators of one rank: tensor, expert and context passes in their fixed order."""
    operators = tensor_parallel(block, plan, float(model.hidden_size), tokens)
    if plan.join_branches and is_parallel(block):
        operators = one_exchange(operators)
    operators = expert_parallel(
        operators,
        plan,
        hidden=float(model.hidden_size),
        imbalance=expert_imbalance(training, plan, model),
        fused_experts=bool(training.fused_experts),
        masks=training.moe_gate == "masks",
    )
    operators = context_parallel(operators, plan, eager_merge=eager_merge)
    frozen = training.phase == "lora"
    return [replace(op, trainable=not frozen) for op in operators] if frozen else operators


def expert_imbalance(training: TrainingSpec, plan: ResolvedPlan, model: ModelSpec) -> float:
    """Load of the busiest expert rank over the mean, from measured shares or a law of popularity if given."""
    load = training.expert_load
    if load.popularity is not None and plan.ep > 1:
        tokens = plan.mbs * training.seq_len / (plan.cp * plan.tp) * plan.ep * plan.etp
        drawn = ExpertLoad(popularity=load.popularity)
        return float(slowest(model.num_experts, model.num_experts_per_tok, plan.ep, drawn, np.array([tokens]))[0][0])
    if load.loads and plan.ep > 1:
        shares = np.asarray(load.loads, np.float64).reshape(plan.ep, -1).sum(axis=1)
        return float(shares.max() / shares.mean())
    return load.imbalance if plan.ep > 1 else 1.0


def style_of(behaviour: Behaviour, training: TrainingSpec) -> Style:
    """How element-wise work is fused and what layers keep."""
    name = "compiled" if is_compiled(behaviour, training) and behaviour.style == "eager" else behaviour.style
    return replace(STYLES[name], expands_kv=behaviour.expands_kv)


def is_compiled(behaviour: Behaviour, training: TrainingSpec) -> bool:
    """Whether layers are compiled: as asked for, else the framework's default."""
    return behaviour.compile if training.compile is None else training.compile


def without_frozen_inputs(block: Block, targets: Sequence[str]) -> Block:
    """The block without tensors that only products with frozen weights would read again.

    Such a product needs its input for a weight gradient alone, which nobody asks for; an adapter beside it does.
    """
    frozen = {
        op.module for op in block.operators if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM) and op.module not in targets
    }
    kept = tuple(t for t in block.tensors if not t.consumers or not frozen.issuperset(t.consumers))
    return replace(block, tensors=kept)


def build_stage_costs(
    model: ModelSpec,
    cluster: ClusterSpec,
    training: TrainingSpec,
    plan: ResolvedPlan,
    coefficients: Coefficients,
    behaviour: Behaviour,
    placement_table: Int32s,
    techniques: Sequence[Applied],
    *,
    split_backward: bool,
    cache: PricingCache | None = None,
) -> StageCosts:
    """Lower, price and simulate every block kind once, then add up virtual stages.

    Args:
        model: What is trained.
        cluster: Where.
        training: How.
        plan: All decided.
        coefficients: Of the device and framework.
        behaviour: Of the framework.
        placement_table: (stage, chunk) of each virtual stage.
        techniques: Applied ones.
        split_backward: Whether weight gradients are instructions of their own.
        cache: What earlier plans of the same call have priced; taken from there, and added to.
    """
    cache = cache if cache is not None else PricingCache()
    params = NetworkCoefficients.for_cluster(cluster)
    params = replace(
        params,
        alpha_s=coefficients.collective_skew_s,
        scale_up_scale=coefficients.scale_up_scale,
        scale_out_scale=coefficients.scale_out_scale,
        partial_node_scale=coefficients.partial_node_scale,
        most_channels=plan.switches.collective_sms,
    )
    network = cache.network(cluster, params, plan.collectives, plan.switches.collective_library)
    order = tuple(axis for axis in plan.order if axis != "ep")
    mesh = Mesh({"tp": plan.tp, "cp": plan.cp, "dp": plan.dp, "pp": plan.pp}, order, cluster)
    groups = _groups(mesh, plan)
    grad_bytes = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}.get(training.grad_reduce_precision or "", behaviour.grad_bytes)
    lora = training.phase == "lora"
    cpu = cluster.device.kind == "cpu"
    forward, backward = (
        copy_bytes(behaviour, plan, grad_bytes, way, frozen=lora, one_stream=cpu) for way in ("F", "B")
    )
    copies = forward, backward
    any_batch = training.model_copy(update={"global_batch": 1})  # blocks see one micro-batch
    priced = cache.blocks(
        (model, cluster, any_batch, coefficients, behaviour),
        plan,
        groups,
        copies,
        techniques,
        split_backward,
        lambda: _price(
            model,
            cluster,
            training,
            plan,
            coefficients,
            behaviour,
            techniques,
            network,
            groups,
            copies,
            split_backward=split_backward,
        ),
    )
    alike = (id(priced), plan.pp, plan.stage_layers, plan.recompute.num_layers, placement_table.tobytes())
    if alike not in cache.stage_costs:
        parts = _assemble(model, training, plan, priced, placement_table, network, mesh, behaviour)
        cache.stage_costs[alike] = replace(
            parts, segments=priced.segments, segment_times=priced.times, costs=priced.costs, plain=priced.plain
        )
    found: StageCosts = cache.stage_costs[alike]
    return replace(
        found,
        techniques=tuple(techniques),
        mesh=mesh,
        dp_place=replicas_of(mesh, plan),
        expert_dp_place=mesh.strided(max(plan.expert_dp, 1), plan.ep * plan.etp),
    )


def _price(
    model: ModelSpec,
    cluster: ClusterSpec,
    training: TrainingSpec,
    plan: ResolvedPlan,
    coefficients: Coefficients,
    behaviour: Behaviour,
    techniques: Sequence[Applied],
    network: NetworkModel,
    groups: dict[str, GroupPlacement],
    copies: tuple[float, float],
    *,
    split_backward: bool,
) -> PricedBlocks:
    """Every block kind on one rank, lowered, priced and simulated.

    Whatever of a plan is read here must be part of what `PricingCache.blocks` tells plans apart by.
    """
    style = style_of(behaviour, training)
    compiled = is_compiled(behaviour, training)
    batch = Batch.train(
        plan.mbs, training.seq_len, document=training.mean_document_length, decoder_seq_len=training.decoder_seq_len
    )
    unfused = plan.attention == "unfused"
    g = graph.build(
        model,
        batch,
        style=style,
        unfused_attention=unfused,
        fused_loss=plan.fused_loss,
        padded_vocab=plan.padded_vocab,
        element_bytes=behaviour.element_bytes,
    )
    for technique in techniques:
        g = technique.on_graph(g)
    if training.phase == "lora":
        targets = (training.lora or LoraSpec()).targets
        g = replace(g, blocks={kind: without_frozen_inputs(block, targets) for kind, block in g.blocks.items()})
    if plan.recompute.keep_collectives and plan.recompute.policy == "full":
        brought = {
            kind: with_collective_results(block, local_block(block, model, training, plan, batch.tokens), plan.cp)
            for kind, block in g.blocks.items()
        }
        g = replace(g, blocks=brought)
    pricing = Pricing(
        device=cluster.device,
        coefficients=coefficients,
        recipe=recipe(training.precision, coefficients, compiled=compiled, fused_quantise=bool(training.fused_permute)),
        attention=plan.attention,
        network=network,
        groups=groups,
        weight_accumulate_bytes=_accumulate_bytes(behaviour, training),
        accumulate_kernel_bytes=_accumulate_kernel_bytes(behaviour, training),
        topk=float(max(model.num_experts_per_tok, 1)),
        rowwise=training.precision == "fp8_rowwise",
        trainable=training.phase != "lora",
        lora=(training.lora or LoraSpec()) if training.phase == "lora" else None,
        two_level_a2a=plan.dispatcher in FUSED_DISPATCHERS,
        overlap_a2a=plan.overlap_moe_a2a and plan.m > 1,
        fused_grouped_quantise=plan.ep > 1 and plan.dispatcher in FUSED_DISPATCHERS,
        fused_experts=bool(training.fused_experts),
        looped_experts=behaviour.experts_looped,
        expert_nodes=plan.switches.expert_nodes,
        local_share=training.expert_load.local,
    )
    lowering = Lowering(pricing)
    names = [*g.blocks, "embedding", "head"]
    blocks = [*g.blocks.values(), g.embedding, g.head]
    segments: list[Segment] = []
    local: list[list[Operator]] = []
    recomputed: list[Recomputed] = []
    stops = behaviour.early_stop if plan.recompute.early_stop is None else plan.recompute.early_stop
    for name, block in zip(names, blocks, strict=True):
        operators = local_block(block, model, training, plan, batch.tokens, eager_merge=behaviour.eager_ring_merge)
        if training.precision in behaviour.tp_gathers_quantised:
            operators = quantised_gathers(operators, pricing.recipe, plan)
        again = recompute_block(
            block,
            operators,
            plan.recompute,
            early_stop=stops,
            named=behaviour.named_remat,
            kept_products=behaviour.saves_quantised or MATRIX_FORMAT[training.precision] != "fp4",
        )
        local.append(operators)
        recomputed.append(again)
        backward, weights = lowering.backward(name, operators, again, split=split_backward)
        segments += [lowering.forward(name, operators), backward, weights]
    if plan.recompute.num_layers is not None:  # layers beyond the given number keep everything
        for name, block, operators in zip(list(g.blocks), blocks, list(local), strict=False):
            again = recompute_block(block, operators, Recompute())
            backward, weights = lowering.backward(name, operators, again, split=split_backward)
            segments += [backward, weights]
            recomputed.append(again)
    lowering.finish()
    for segment in (s for s in segments if s.direction != "W"):
        own, per_param = local[names.index(segment.name)], copies["FB".index(segment.direction)]
        add_copies(segment, sum(op.params for op in own), per_param, cluster.device, coefficients)
        if casts_weights(behaviour, plan):
            add_casts(segment, own, cluster.device, coefficients, frozen=training.phase == "lora")
    for technique in techniques:
        segments = [technique.on_segment(segment, cluster) for segment in segments]
    host, sync, drained = host_work(segments, model, g, plan, coefficients, style)
    times = simulate_segments(segments, cluster, coefficients, host, sync, drained)
    empty = replace(
        times[0],
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
    costs: dict[str, BlockCost] = {}
    for i, (name, block) in enumerate(zip(names, blocks, strict=True)):
        f, b, w = times[3 * i : 3 * i + 3]
        segments_of = (f, b, w if split_backward else empty)
        cost = _block_cost(block, local[i], recomputed[i], plan, segments_of, pricing.recipe)
        costs[name] = replace(cost, segments=(3 * i, 3 * i + 1, 3 * i + 2))
    plain: dict[str, BlockCost] = {}
    if plan.recompute.num_layers is not None:
        base = 3 * len(names)
        for j, name in enumerate(g.blocks):
            b, w = times[base + 2 * j : base + 2 * j + 2]
            cost = _block_cost(
                blocks[j],
                local[j],
                recomputed[len(names) + j],
                plan,
                (costs[name].forward, b, w if split_backward else empty),
                pricing.recipe,
            )
            plain[name] = replace(cost, segments=(3 * j, base + 2 * j, base + 2 * j + 1))
    return PricedBlocks(g, batch, costs, plain, tuple(segments), tuple(times))


def _trainable_share(training: TrainingSpec, g: ModelGraph) -> float:
    """LoRA: rank · (inputs + outputs) of every targeted matrix over all weights (Hu et al. 2021, arXiv 2106.09685)."""
    if training.phase != "lora":
        return 1.0
    lora = training.lora or LoraSpec()
    total = g.embedding.params + g.head.params + sum(g.blocks[kind].params for kind in g.depth)
    adapters = sum(
        lora.rank * (op.n + op.k) * op.groups
        for kind in g.depth
        for op in g.blocks[kind].operators
        if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM) and op.module in lora.targets
    )
    return adapters / total


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

    The buffer has the width in which gradients are reduced (Megatron-LM v2.x, `main_grad` of its local DDP).
    """
    if behaviour.fused_accumulation:
        return 0.0
    return behaviour.element_bytes + 2.0 * behaviour.wire_bytes(training.precision, training.grad_reduce_precision)


def _block_cost(
    block: Block,
    operators: list[Operator],
    again: Recomputed,
    plan: ResolvedPlan,
    times: tuple[SegmentTime, SegmentTime, SegmentTime],
    recipe_used: Recipe,
) -> BlockCost:
    kept: defaultdict[str, float] = defaultdict(float)
    for tensor in again.kept:
        kept[_memory_kind(tensor.name)] += tensor_bytes(tensor, plan) * kept_bytes_scale(tensor, recipe_used)
    dropped = sum(tensor_bytes(tensor, plan) for tensor in again.dropped)
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


def _further(costs: dict[str, BlockCost], number: int) -> list[tuple[BlockCost, float]]:
    """Multi-token prediction: `number` modules, each with a look-up and a head that share the trunk's weights."""
    if not number:
        return []
    shared = (replace(costs[name], dense_params=0.0, largest_weights={}) for name in ("embedding", "head"))
    return [(cost, float(number)) for cost in (costs[graph.PREDICTED], *shared)]


def _memory_kind(name: str) -> str:
    if name in ("logits", "final_norm_out", "final_norm_input"):
        return HEAD
    if name in ("softmax_out", "dropout_out", "dropout_mask"):
        return "attention scores"
    return "activations"


def _assemble(
    model: ModelSpec,
    training: TrainingSpec,
    plan: ResolvedPlan,
    priced: PricedBlocks,
    placement_table: Int32s,
    network: NetworkModel,
    mesh: Mesh,
    behaviour: Behaviour,
) -> StageCosts:
    g, costs, plain = priced.graph, priced.costs, priced.plain
    k_total, depth = len(plan.stage_layers), len(plan.stage_layers) // plan.copies
    work = CommWork(*(np.zeros((3, k_total)) for _ in range(5)))
    transient = np.zeros((3, k_total))
    dense, expert = np.zeros(k_total), np.zeros(k_total)
    busy: list[list[dict[str, float]]] = [[{} for _ in range(k_total)] for _ in range(3)]
    kept: list[dict[str, float]] = []
    flop, at = 0.0, 0
    again = recomputing(plan.stage_layers, placement_table[:, 0].tolist(), plan.recompute.num_layers)
    kinds = []
    used: list[tuple[tuple[tuple[int, int, int], float], ...]] = []
    stage_shapes: list[dict[tuple[float, float], float]] = [{} for _ in range(plan.pp)]
    summed: dict[tuple[tuple[int, float], ...], BlockSum] = {}
    for k, count in enumerate(plan.stage_layers):
        at = at if k % depth else 0  # every copy of the model begins anew
        letters = g.depth[at : at + count]
        at += count
        kinds.append(letters)
        stage = int(placement_table[k, 0])
        uses: list[tuple[BlockCost, float]] = []
        for (kind, repeats), layers_alike in Counter(zip(letters, again[k], strict=True)).items():
            uses.append((costs[kind] if repeats else plain[kind], float(layers_alike)))
        if k % depth == 0:
            uses.append((costs["embedding"], 1.0))
        if k % depth == depth - 1:
            uses.append((costs["head"], 1.0))
            uses += _further(costs, g.further_tokens)
        used.append(tuple((cost.segments, number) for cost, number in uses if number))
        name = tuple((id(cost), number) for cost, number in uses)
        if name not in summed:
            summed[name] = BlockSum.of(uses)
        one = summed[name]
        for column, own in zip(work.columns, one.work.columns, strict=True):
            column[:, k] = own
        for d in range(3):
            busy[d][k] = dict(one.busy[d])
        for value in one.flop:
            flop += value / plan.copies  # a micro-batch runs through one of them
        kept.append(dict(one.kept))
        dense[k], expert[k], transient[1, k] = one.dense, one.expert, one.transient
        stage_shapes[stage] |= one.shapes
    deep = [(costs["head"], 1.0), *_further(costs, g.further_tokens)]
    head = np.array([sum(number * cost.time(d).total_s for cost, number in deep) for d in range(3)])
    ends = np.array([costs["embedding"].time(d).total_s for d in range(3)])
    tied_copy = 0.0
    if g.tied:
        tied_copy = plan.padded_vocab * model.hidden_size / plan.tp
        if plan.pp > 1:
            dense[depth - 1 :: depth] += tied_copy
    dummy = np.zeros(plan.pp)
    if behaviour.dummy_wgrad:
        dummy = np.array([behaviour.element_bytes * sum(shapes.values()) for shapes in stage_shapes])
    layer_params = max(c.dense_params + c.expert_params for name, c in costs.items() if name in g.blocks)
    share = plan.tp if (plan.sp or behaviour.scatter_gather_p2p) else 1
    p2p_bytes = priced.batch.tokens / plan.cp * model.hidden_size * g.element_bytes / share
    expert_stride = plan.ep * plan.etp
    edp = max(plan.expert_dp, 1)
    return StageCosts(
        work=work,
        head_s=head,
        embedding_s=ends,
        layers=np.asarray(plan.stage_layers, np.int32),
        busy_s=busy,
        kept_bytes=kept,
        transient_bytes=transient,
        dense_params=dense,
        expert_params=expert,
        layer_params=layer_params,
        hardware_flop=flop * plan.tp * plan.cp,
        p2p_bytes=p2p_bytes,
        scatter_gather=behaviour.scatter_gather_p2p,
        graph=g,
        network=network,
        mesh=mesh,
        dp_place=replicas_of(mesh, plan),
        expert_dp_place=mesh.strided(edp, expert_stride),
        dummy_wgrad_bytes=dummy,
        trainable_share=_trainable_share(training, g),
        block_kinds=kinds,
        uses=tuple(used),
    )
