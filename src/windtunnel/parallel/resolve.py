"""A plan with every default filled in and every rule checked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.errors import ProblemList
from windtunnel.parallel.plan_checks import PlanCase, check_plan
from windtunnel.parallel.plan_sizes import PlanSizes, default_split
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.compression import Compression, LocalSteps
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import CarriedSwitches, Offload, Overlap, PlanSpec, Recompute, ShardLevels
from windtunnel.specs.switches import switches_of
from windtunnel.specs.workload import TrainingSpec

WHOLE = Compression()
"""Nothing is compressed."""
NOT_SWITCHED = CarriedSwitches()
"""Every carried switch is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPlan:
    """Axis sizes and switches, all decided. `m` is the number of micro-batches per replica and step."""

    tp: int
    sp: bool
    pp: int
    vpp: int
    cp: int
    cp_kind: str
    cp_all_to_all: int
    ep: int
    etp: int
    dp: int
    zero: int
    shard_group: int
    mbs: int
    m: int
    schedule: str
    recompute: Recompute
    offload: Offload
    reshard_after_forward: bool
    overlap_grad_reduce: bool
    overlap_param_gather: bool
    overlap_tp: bool
    overlap_p2p: bool
    overlap_moe_a2a: bool
    fsdp_prefetch: bool
    attention: str
    fused_loss: bool
    cuda_graphs: str
    dispatcher: str
    fused_experts: bool
    fused_rope: bool
    padded_vocab: float
    stage_layers: tuple[int, ...]
    """Layers of each virtual stage in depth order."""
    order: tuple[str, ...]
    tp_regather: bool = True
    """Whether sequence-parallel inputs are kept cut and gathered again for weight gradients (Megatron), or kept."""
    tp_bulk_overlap: bool = False
    """Whether backward runs the gather next to the data gradient and the scatter next to the weight gradient."""
    collectives: tuple[tuple[str, str], ...] = ()
    """(axis.operation, algorithm) where the library's own choice is not taken."""
    copies: int = 1
    """Copies of the model that a pipeline holds (DualPipe: 2); `stage_layers` repeats for each."""
    expert_tokens: str = "split"
    sequence_groups: str = "fixed"
    levels: ShardLevels | None = None
    gathered_layers: int = 2
    gather_block: float = 0.0
    """ZeRO-3: micro-batches that one gather of a chunk serves, on average; 0 where gathers are not by block."""

    join_branches: bool = False
    """Whether attention and feed-forward of parallel blocks share their tensor-parallel exchanges."""

    compression: Compression = WHOLE
    local_steps: LocalSteps | None = None
    one_communicator: bool = False
    """ZeRO-3: whether gathers and reductions of shards run one after the other."""
    switches: CarriedSwitches = NOT_SWITCHED
    """Switches that the step reads as the plan writes them."""

    @property
    def expert_dp(self) -> int:
        """Replicas of each expert."""
        return self.dp * self.cp * self.tp // (self.ep * self.etp) * self.copies


_AS_WRITTEN = frozenset(f.name for f in fields(ResolvedPlan)) & PlanSpec.model_fields.keys()
"""Fields that the resolved plan has under the plan's own names."""
_LEFT_TO_FRAMEWORK = tuple(
    tuple(
        (name, switch.resolved_as or name, switch.framework_default)
        for name, switch in switches_of(record).items()
        if switch.framework_default is not None
    )
    for record in (PlanSpec, Overlap, TrainingSpec)
)
"""For the plan, its overlap and the work: fields, what they decide, and which of the framework's defaults is theirs."""


def resolve(
    model: ModelSpec,
    cluster: ClusterSpec,
    training: TrainingSpec,
    plan: PlanSpec,
    behaviour: Behaviour,
    problems: ProblemList,
) -> ResolvedPlan | None:
    """Fill defaults and check rules.

    Switches that need no decision come over by name; what follows from other fields is decided here.

    Args:
        model: What is trained.
        cluster: Where it is trained.
        training: The work of a step.
        plan: As it is written.
        behaviour: Defaults of the framework.
        problems: Takes everything that is wrong with the plan.

    Returns:
        The decided plan; None when the plan cannot run.
    """
    before = len(problems)
    sizes = PlanSizes.of(model, cluster, training, plan, behaviour)
    case = PlanCase(model=model, cluster=cluster, training=training, plan=plan, behaviour=behaviour, sizes=sizes)
    check_plan(case, problems)
    if len(problems) > before:
        return None
    return ResolvedPlan(
        **{name: getattr(plan, name) for name in _AS_WRITTEN}
        | framework_switches(plan, training, behaviour)
        | _decided(case)
    )


def framework_switches(plan: PlanSpec, training: TrainingSpec, behaviour: Behaviour) -> dict[str, Any]:
    """Every switch whose absence leaves it to the framework: as it is written, else as the framework has it."""
    found: dict[str, Any] = {}
    for record, names in zip((plan, plan.overlap, training), _LEFT_TO_FRAMEWORK, strict=True):
        for name, decides, default in names:
            given = getattr(record, name)
            found[decides] = getattr(behaviour, default) if given is None else given
    return found


def _decided(case: PlanCase) -> dict[str, Any]:
    """Fields that follow from the rest of the plan, from the model or from the work."""
    model, training, plan, behaviour, sizes = case.model, case.training, case.plan, case.behaviour, case.sizes
    sharding = sharding_decisions(plan.zero, sizes.shard_group, plan.offload, behaviour)
    zero = sharding["zero"]
    layers = plan.stage_layers
    if layers is None:
        ends = {"embedding": plan.embedding_as_layer, "loss": plan.loss_as_layer}
        layers = default_split(sizes.depth, sizes.virtual_stages, **ends)
    recompute = plan.recompute
    if recompute.policy == "selective":
        recompute = recompute.model_copy(update={"policy": "modules", "modules": tuple(behaviour.selective_modules)})
    gathers_again = plan.pp == 1 or bool(plan.gather_per_block)
    return {
        "sp": (behaviour.sp if plan.sp is None else plan.sp) and plan.tp > 1,
        "dp": sizes.dp,
        "m": sizes.m,
        "shard_group": sizes.shard_group,
        "schedule": sizes.schedule,
        "copies": sizes.copies,
        "stage_layers": tuple(layers) * sizes.copies,
        "recompute": recompute,
        "reshard_after_forward": gathers_again if plan.reshard_after_forward is None else plan.reshard_after_forward,
        "levels": plan.levels if zero == 3 else None,
        "gathered_layers": plan.gathered_layers or 2,
        "join_branches": bool(plan.join_branches),
        "one_communicator": zero == 3 and bool(plan.overlap.one_communicator),
        "collectives": tuple(sorted(plan.collectives.items())),
        "switches": carried(plan),
        "attention": _attention(model, training, behaviour),
        "padded_vocab": float(_vocabulary(model, training, plan, behaviour)),
        "tp_regather": behaviour.tp_regather,
        "tp_bulk_overlap": behaviour.tp_bulk_overlap and plan.overlap.tp is None,
        **sharding,
    }


def sharding_decisions(zero: int, shard_group: int, offload: Offload, behaviour: Behaviour) -> dict[str, Any]:
    """Fields of a resolved plan that follow from how it shards and what it offloads, for a plan and for its bounds.

    FSDP over one rank shards nothing (`NO_SHARD`).
    """
    return {
        "zero": 0 if zero == 3 and shard_group == 1 else zero,
        "offload": _offload(offload, zero, behaviour),
    }


def _offload(offload: Offload, zero: int, behaviour: Behaviour) -> Offload:
    """What is kept outside the device: ZeRO-Offload takes the gradients of an offloaded optimizer along."""
    if not behaviour.grads_follow_optimizer or zero == 0 or offload.gradients >= offload.optimizer:
        return offload
    tier = offload.gradients_tier if offload.gradients else offload.tier_of("optimizer")
    return offload.model_copy(update={"gradients": offload.optimizer, "gradients_tier": tier})


def carried(plan: PlanSpec) -> CarriedSwitches:
    """The switches that a step reads as the plan writes them."""
    return CarriedSwitches.model_construct(**{name: getattr(plan, name) for name in CarriedSwitches.model_fields})


def _attention(model: ModelSpec, training: TrainingSpec, behaviour: Behaviour) -> str:
    """The attention kernel, where `auto` leaves it to the framework."""
    if training.attention != "auto":
        return training.attention
    return "unfused" if model.position_embedding == "relative" else behaviour.attention  # no learned bias in fused ones


def _vocabulary(model: ModelSpec, training: TrainingSpec, plan: PlanSpec, behaviour: Behaviour) -> int:
    """Rows of the embedding, padded to a multiple of 128 on each tensor rank where work or framework say so."""
    pads = behaviour.pads_vocabulary if training.padded_vocab is None else training.padded_vocab
    multiple = 128 * plan.tp
    return -(-model.vocab_size // multiple) * multiple if pads else model.vocab_size
