"""Per virtual stage: seconds, work, memory and parameters, from segments that are simulated once per block kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from windtunnel import graph
from windtunnel.arrays import Floats, Int32s
from windtunnel.graph import ModelGraph
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import GroupPlacement, Mesh
from windtunnel.network.model import NetworkModel
from windtunnel.parallel.recompute import recomputing
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.comm_work import CommWork
from windtunnel.program.segment import Segment, SegmentTime
from windtunnel.schedules.table import InstructionTable
from windtunnel.techniques.base import Applied
from windtunnel.training.stage_costs.adapters import stored_share, trainable_share
from windtunnel.training.stage_costs.block_pricing import BlockCase, price_blocks
from windtunnel.training.stage_costs.dp_groups import replicas_of
from windtunnel.training.stage_costs.fsdp_copies import copy_bytes
from windtunnel.training.stage_costs.local_block import communication_groups
from windtunnel.training.stage_costs.pricing_cache import BlockCost, BlockSum, PricedBlocks
from windtunnel.training.stage_costs.step_inputs import StepInputs


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
    """FLOP of one micro-batch over all ranks of one model replica."""
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
    stored_share: float = 1.0
    """Bytes of stored weights over their bytes in the model's own format: below 1 for a base in few bits."""
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
    """Seconds and work of each segment; zero for weight gradients that run inside the backward segment."""
    uses: tuple[tuple[tuple[tuple[int, int, int], float], ...], ...] = ()
    """[k] → (segments F, B, W; how often a micro-batch runs them), summing to `seconds[:, k]`."""
    costs: dict[str, BlockCost] = field(default_factory=dict)
    """Block kind (and `embedding`, `head`) → cost of one block."""
    techniques: tuple[Applied, ...] = ()
    """That act, for what is priced later: passes that run in pairs."""
    plain: dict[str, BlockCost] = field(default_factory=dict)
    """The same without recomputation, where only some layers of a stage recompute."""


def build_stage_costs(inputs: StepInputs, plan: ResolvedPlan, schedule: InstructionTable) -> StageCosts:
    """Lower, price and simulate every block kind once, then add up virtual stages.

    Args:
        inputs: What the plan is priced with.
        plan: The plan with nothing left open.
        schedule: Which pipeline stage each virtual stage is on, and whether backward is split.
    """
    cache = inputs.cache
    order = tuple(axis for axis in plan.order if axis != "ep")
    mesh = Mesh({"tp": plan.tp, "cp": plan.cp, "dp": plan.dp, "pp": plan.pp}, order, inputs.cluster)
    case = BlockCase(
        inputs=inputs,
        plan=plan,
        network=_network(inputs, plan),
        groups=communication_groups(mesh, plan),
        copies=_fsdp_copies(inputs, plan),
        split_backward=schedule.split_backward,
    )
    any_batch = inputs.training.model_copy(update={"global_batch": 1})  # blocks see one micro-batch
    priced = cache.blocks(
        (inputs.model, inputs.cluster, any_batch, inputs.coefficients, inputs.behaviour),
        plan,
        case.groups,
        case.copies,
        inputs.techniques,
        case.split_backward,
        lambda: price_blocks(case),
    )
    alike = (id(priced), plan.pp, plan.stage_layers, plan.recompute.num_layers, schedule.placement.tobytes())
    if alike not in cache.stage_costs:
        cache.stage_costs[alike] = sum_stages(case, priced, schedule, mesh)
    found: StageCosts = cache.stage_costs[alike]
    return replace(
        found,
        techniques=inputs.techniques,
        mesh=mesh,
        dp_place=replicas_of(mesh, plan),
        expert_dp_place=mesh.strided(max(plan.expert_dp, 1), plan.ep * plan.etp),
    )


def _network(inputs: StepInputs, plan: ResolvedPlan) -> NetworkModel:
    """The cluster's network under the coefficients and the collective library of a plan."""
    coefficients = inputs.coefficients
    params = replace(
        NetworkCoefficients.for_cluster(inputs.cluster),
        alpha_s=coefficients.collective_skew_s,
        scale_up_scale=coefficients.scale_up_scale,
        scale_out_scale=coefficients.scale_out_scale,
        partial_node_scale=coefficients.partial_node_scale,
        most_channels=plan.switches.collective_sms,
    )
    return inputs.cache.network(inputs.cluster, params, plan.collectives, plan.switches.collective_library)


def _fsdp_copies(inputs: StepInputs, plan: ResolvedPlan) -> tuple[float, float]:
    """Bytes per parameter that FSDP copies forward and backward."""
    training, behaviour = inputs.training, inputs.behaviour
    grad_bytes = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}.get(training.grad_reduce_precision or "", behaviour.grad_bytes)
    forward, backward = (
        copy_bytes(
            behaviour,
            plan,
            grad_bytes,
            direction,
            frozen=training.phase == "lora",
            one_stream=inputs.cluster.device.kind == "cpu",
        )
        for direction in ("F", "B")
    )
    return forward, backward


def sum_stages(case: BlockCase, priced: PricedBlocks, schedule: InstructionTable, mesh: Mesh) -> StageCosts:
    """Add up the blocks of each virtual stage."""
    plan, model_graph, costs = case.plan, priced.graph, priced.costs
    model, behaviour = case.inputs.model, case.inputs.behaviour
    count, depth = len(plan.stage_layers), len(plan.stage_layers) // plan.copies
    block_kinds, uses = _uses(plan, priced, schedule)
    sums = _block_sums(uses)
    flop = 0.0
    for own in sums:
        for value in own.flop:
            flop += value / plan.copies  # a micro-batch runs through one of them
    transient = np.zeros((3, count))
    transient[1] = [own.transient for own in sums]
    dense = np.array([own.dense for own in sums], np.float64)
    if model_graph.tied and plan.pp > 1:
        dense[depth - 1 :: depth] += plan.padded_vocab * model.hidden_size / plan.tp
    deep = [(costs["head"], 1.0), *_prediction_modules(costs, model_graph.further_tokens)]
    share = plan.tp if (plan.sp or behaviour.scatter_gather_p2p) else 1
    return StageCosts(
        work=_work_of_stages(sums),
        head_s=np.array([sum(number * cost.time(d).total_s for cost, number in deep) for d in range(3)]),
        embedding_s=np.array([costs["embedding"].time(d).total_s for d in range(3)]),
        layers=np.asarray(plan.stage_layers, np.int32),
        busy_s=[[dict(own.busy[d]) for own in sums] for d in range(3)],
        kept_bytes=[dict(own.kept) for own in sums],
        transient_bytes=transient,
        dense_params=dense,
        expert_params=np.array([own.expert for own in sums], np.float64),
        layer_params=max(c.dense_params + c.expert_params for name, c in costs.items() if name in model_graph.blocks),
        hardware_flop=flop * plan.tp * plan.cp,
        p2p_bytes=priced.batch.tokens / plan.cp * model.hidden_size * model_graph.element_bytes / share,
        scatter_gather=behaviour.scatter_gather_p2p,
        graph=model_graph,
        network=case.network,
        mesh=mesh,
        dp_place=replicas_of(mesh, plan),
        expert_dp_place=mesh.strided(max(plan.expert_dp, 1), plan.ep * plan.etp),
        dummy_wgrad_bytes=_dummy_wgrad_bytes(case, sums, schedule),
        trainable_share=trainable_share(case.inputs.training, model_graph),
        stored_share=stored_share(case.inputs.training, model_graph),
        block_kinds=block_kinds,
        uses=tuple(tuple((cost.segments, number) for cost, number in own if number) for own in uses),
        segments=priced.segments,
        segment_times=priced.times,
        costs=priced.costs,
        plain=priced.plain,
    )


def _work_of_stages(sums: list[BlockSum]) -> CommWork:
    """(3, K): seconds and work of F, B, W of each virtual stage."""
    work = CommWork(*(np.zeros((3, len(sums))) for _ in range(5)))
    for k, own in enumerate(sums):
        for column, values in zip(work.columns, own.work.columns, strict=True):
            column[:, k] = values
    return work


def _uses(
    plan: ResolvedPlan, priced: PricedBlocks, schedule: InstructionTable
) -> tuple[list[str], list[list[tuple[BlockCost, float]]]]:
    """Block kinds of each virtual stage, and the blocks that it runs, each so many times; ends included."""
    model_graph, costs = priced.graph, priced.costs
    depth = len(plan.stage_layers) // plan.copies
    recomputes = recomputing(plan.stage_layers, schedule.placement[:, 0].tolist(), plan.recompute.num_layers)
    block_kinds: list[str] = []
    uses: list[list[tuple[BlockCost, float]]] = []
    first = 0
    for k, count in enumerate(plan.stage_layers):
        first = first if k % depth else 0  # every copy of the model begins anew
        kinds = model_graph.depth[first : first + count]
        first += count
        block_kinds.append(kinds)
        alike = Counter(zip(kinds, recomputes[k], strict=True))
        own = [
            (costs[kind] if repeats else priced.plain[kind], float(layers)) for (kind, repeats), layers in alike.items()
        ]
        if k % depth == 0:
            own.append((costs["embedding"], 1.0))
        if k % depth == depth - 1:
            own.append((costs["head"], 1.0))
            own += _prediction_modules(costs, model_graph.further_tokens)
        uses.append(own)
    return block_kinds, uses


def _block_sums(uses: list[list[tuple[BlockCost, float]]]) -> list[BlockSum]:
    """The sum of each virtual stage's blocks; stages that run the same blocks share it."""
    summed: dict[tuple[tuple[int, float], ...], BlockSum] = {}
    sums: list[BlockSum] = []
    for own in uses:
        name = tuple((id(cost), number) for cost, number in own)
        if name not in summed:
            summed[name] = BlockSum.of(own)
        sums.append(summed[name])
    return sums


def _dummy_wgrad_bytes(case: BlockCase, sums: list[BlockSum], schedule: InstructionTable) -> Floats:
    """(p,): buffers of each stage that stand in for weight gradients."""
    plan, behaviour = case.plan, case.inputs.behaviour
    if not behaviour.dummy_wgrad:
        return np.zeros(plan.pp)
    shapes: list[dict[tuple[float, float], float]] = [{} for _ in range(plan.pp)]
    for stage, own in zip(schedule.placement[:, 0].tolist(), sums, strict=True):
        shapes[stage] |= own.shapes
    return np.array([behaviour.element_bytes * sum(own.values()) for own in shapes])


def _prediction_modules(costs: dict[str, BlockCost], number: int) -> list[tuple[BlockCost, float]]:
    """Multi-token prediction: `number` modules, each with a look-up and a head that share the trunk's weights."""
    if not number:
        return []
    shared = (replace(costs[name], dense_params=0.0, largest_weights={}) for name in ("embedding", "head"))
    return [(cost, float(number)) for cost in (costs[graph.PREDICTED], *shared)]
