"""A plan with every default filled in and every rule checked."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel import schedules
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.errors import ProblemList, nearest_name
from windtunnel.network.collectives import ALGORITHMS, OPS
from windtunnel.network.selector import SELECTORS
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.compression import Compression, LocalSteps
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import RECOMPUTE_MODULES, TENSOR_CLASSES, Offload, PlanSpec, Recompute, ShardLevels
from windtunnel.specs.workload import LoraSpec, TrainingSpec

WHOLE = Compression()
"""Nothing is compressed."""
SELECTIVE_MODULES = ("core_attn",)
MAX_INSTRUCTIONS = 200_000
"""Forward passes per replica and step that are simulated one by one; beyond it a step takes minutes to simulate."""


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
    padded_vocab: float
    stage_layers: tuple[int, ...]
    """Layers of each virtual stage in depth order."""
    order: tuple[str, ...]
    tp_regather: bool = True
    """Whether sequence-parallel inputs are kept cut and gathered again for weight gradients (Megatron), or kept."""
    tp_bulk_overlap: bool = False
    """Whether backward runs the gather beside the data gradient and the scatter beside the weight gradient."""
    collectives: tuple[tuple[str, str], ...] = ()
    """(axis.operation, algorithm) where the library's own choice is not taken."""
    collective_library: str | None = None
    copies: int = 1
    """Copies of the model that a pipeline holds (DualPipe: 2); `stage_layers` repeats for each."""
    expert_tokens: str = "split"
    sequence_groups: str = "fixed"
    expert_nodes: int | None = None
    levels: ShardLevels | None = None
    gathered_layers: int = 2
    gather_block: float = 0.0
    """ZeRO-3: micro-batches that one gather of a chunk serves, on average; 0 where gathers are not by block."""

    collective_sms: int | None = None
    join_branches: bool = False
    """Whether attention and feed-forward of parallel blocks share their tensor-parallel exchanges."""

    compression: Compression = WHOLE
    local_steps: LocalSteps | None = None
    one_communicator: bool = False
    """ZeRO-3: whether gathers and reductions of shards run one after the other."""

    @property
    def expert_dp(self) -> int:
        """Replicas of each expert."""
        return self.dp * self.cp * self.tp // (self.ep * self.etp) * self.copies


def nearest_divisors(value: int, number: int) -> tuple[int, int]:
    """The multiples of `value` just below and above `number`."""
    low = max(number // value * value, value)
    return low, low + value


def split_layers(depth: int, parts: int, *, embedding: bool, loss: bool) -> tuple[int, ...] | None:
    """Even split of layers over virtual stages; the ends may count as a layer each (Megatron `account_for_*`).

    When the total does not divide, the remainder goes to the middle parts, as few as possible to the ends.
    """
    total = depth + embedding + loss
    if total % parts == 0:
        layers = [total // parts] * parts
        layers[0] -= embedding
        layers[-1] -= loss
        return tuple(layers) if min(layers) >= 0 else None
    base, extra = divmod(depth, parts)
    layers = [base] * parts
    start = (parts - extra) // 2
    for i in range(extra):
        layers[start + i] += 1
    return tuple(layers)


def chosen_schedule(given: str | None, vpp: int, behaviour: Behaviour) -> str:
    """The schedule that a plan names, or what the framework runs."""
    schedule = given or ("interleaved_1f1b" if vpp > 1 else "1f1b")
    if schedule == "interleaved_1f1b" and behaviour.steady_interleaving:
        return "interleaved_1f1b_steady"
    return schedule


def resolve(
    model: ModelSpec,
    cluster: ClusterSpec,
    training: TrainingSpec,
    plan: PlanSpec,
    behaviour: Behaviour,
    problems: ProblemList,
) -> ResolvedPlan | None:
    """Fill defaults and check rules; problems are added, and None returned, when the plan cannot run."""
    before = len(problems)
    devices = cluster.num_devices
    inner = plan.tp * plan.pp * plan.cp
    if plan.dp == "auto":
        if devices % inner:
            low, high = nearest_divisors(inner, devices)
            problems.add(
                "plan",
                f"tp {plan.tp} · pp {plan.pp} · cp {plan.cp} = {inner}",
                f"must divide the {devices} devices of the cluster; nearest cluster sizes are {low} and {high}",
            )
        dp = max(devices // inner, 1)
    else:
        dp = plan.dp
        if dp * inner != devices:
            problems.add(
                "plan.dp",
                dp,
                f"tp · pp · cp · dp = {dp * inner} must equal the {devices} devices; use auto or {devices // inner}",
            )
    if plan.batch_shares is not None:
        problems.add("plan.batch_shares", plan.batch_shares, "needs groups of unlike devices (cluster.groups)")
    apart = 2 if training.perturbations_apart else 1
    if apart > 1 and (training.gradients != "zeroth_order" or dp % 2):
        rule = "needs training.gradients zeroth_order and an even number of replicas"
        problems.add("training.perturbations_apart", True, rule)
    if training.directions > 1 and training.gradients != "zeroth_order":
        problems.add("training.directions", training.directions, "needs training.gradients zeroth_order")
    if training.gradients == "zeroth_order" and (plan.pp > 1 or training.phase == "lora"):
        problems.add("training.gradients", "zeroth_order", "needs pp 1 and all weights trained (no lora)")
    per_step = max(plan.mbs * dp // apart, 1)
    if dp * inner == devices and training.global_batch % per_step:
        low, high = nearest_divisors(per_step, training.global_batch)
        problems.add(
            "training.global_batch",
            training.global_batch,
            f"must be divisible by mbs · dp = {plan.mbs} · {dp} = {per_step}; nearest are {low} and {high}",
        )
    m = max(training.global_batch // per_step, 1)
    if m * plan.pp * plan.vpp > MAX_INSTRUCTIONS:
        problems.add(
            "training.global_batch",
            training.global_batch,
            f"makes {m} micro-batches per replica; pp · vpp · micro-batches must be at most {MAX_INSTRUCTIONS}",
        )
    if model.num_attention_heads % plan.tp:
        problems.add("plan.tp", plan.tp, f"must divide num_attention_heads {model.num_attention_heads} of {model.name}")
    if plan.ep > 1 and not model.num_experts:
        problems.add("plan.ep", plan.ep, f"must be 1: {model.name} has no experts")
    elif model.num_experts and model.num_experts % plan.ep:
        problems.add("plan.ep", plan.ep, f"must divide num_experts {model.num_experts} of {model.name}")
    if (dp * plan.cp * plan.tp) % (plan.ep * plan.etp):
        problems.add("plan.ep", plan.ep, f"ep · etp must divide dp · cp · tp = {dp * plan.cp * plan.tp}")
    if plan.cp > 1 and training.seq_len % (2 * plan.cp):
        problems.add("plan.cp", plan.cp, f"2 · cp must divide seq_len {training.seq_len} (balanced causal chunks)")
    if plan.cp_kind == "hybrid" and plan.cp % plan.cp_all_to_all:
        problems.add("plan.cp_all_to_all", plan.cp_all_to_all, f"must divide cp {plan.cp}")
    a2a = {"all_to_all": plan.cp, "hybrid": plan.cp_all_to_all}.get(plan.cp_kind, 1)
    if a2a > 1 and model.num_attention_heads % (plan.tp * a2a) and model.num_attention_heads % plan.tp == 0:
        rule = f"attention by all_to_all needs tp · {a2a} to divide num_attention_heads {model.num_attention_heads}"
        problems.add("plan.cp", plan.cp, rule)
    if plan.expert_tokens != "split" and (plan.etp != plan.tp or (plan.tp > 1 and switch(plan.sp, behaviour.sp))):
        rule = f"needs etp = tp ({plan.tp}) and sp false; with sequence parallelism tokens are split"
        problems.add("plan.expert_tokens", plan.expert_tokens, rule)
    if plan.sequence_groups != "fixed" and plan.cp_kind == "hybrid":
        rule = "must be fixed with cp_kind hybrid: groups of other sizes have no inner axis"
        problems.add("plan.sequence_groups", plan.sequence_groups, rule)
    _check_training(model, training, problems)
    _check_collectives(plan, cluster, problems)
    _check_offload(plan.offload, cluster, problems)
    depth = len(model.layer_kinds())
    schedule = chosen_schedule(plan.schedule, plan.vpp, behaviour)
    copies = schedules.describe(schedule).copies if schedule in schedules.list_ids() and plan.pp > 1 else 1
    parts = plan.pp * plan.vpp // copies
    layered = plan.schedule == "breadth_first" and bool(plan.gather_per_block)
    if plan.pp == 1 and plan.vpp > 1 and not layered:
        rule = "must be 1 without a pipeline (pp 1), except for schedule breadth_first with gather_per_block"
        problems.add("plan.vpp", plan.vpp, rule)
    if parts > depth + 2:
        rule = f"pp · vpp = {parts} must not exceed the {depth} layers of {model.name} and its two ends"
        problems.add("plan.pp", plan.pp, rule)
    layers = plan.stage_layers
    if layers is not None and (len(layers) != parts or sum(layers) != depth or min(layers) < 0):
        sizes = "pp · vpp" if copies == 1 else f"pp · vpp / {copies} copies of the model"
        rule = f"must have {sizes} = {parts} entries, none negative, that sum to {depth} layers"
        problems.add("plan.stage_layers", list(layers), rule)
    for module in plan.recompute.modules:
        if module not in RECOMPUTE_MODULES:
            problems.add("plan.recompute.modules", module, f"must be one of {', '.join(RECOMPUTE_MODULES)}")
    counts = plan.recompute.num_layers
    if isinstance(counts, tuple) and len(counts) not in {1, plan.pp, parts}:
        rule = f"a list must have one count a stage (pp {plan.pp}) or a virtual stage (pp · vpp {parts})"
        problems.add("plan.recompute.num_layers", list(counts), rule)
    shard_group = plan.shard_group or dp * plan.cp * copies
    if (dp * plan.cp * copies) % shard_group:
        problems.add("plan.shard_group", shard_group, f"must divide dp · cp = {dp * plan.cp * copies}")
    for name in ("params", "params_again", "gradients"):
        size = getattr(plan.levels, name, None)
        if size is not None and shard_group % size:
            problems.add(f"plan.levels.{name}", size, f"must divide the {shard_group} ranks of a shard group")
    if plan.levels is not None and plan.zero != 3:
        problems.add("plan.levels", "given", "needs zero 3")
    _check_sent(plan, model, training, dp * plan.cp * copies, problems)
    if plan.gather_per_block and not (plan.zero == 3 and (plan.pp > 1 or layered)):
        rule = "needs zero 3, and a pipeline or schedule breadth_first, which takes layer after layer"
        problems.add("plan.gather_per_block", True, rule)
    if plan.gather_per_block and plan.reshard_after_forward is False:
        problems.add("plan.gather_per_block", True, "needs parameters that are given up again (reshard_after_forward)")
    if copies > 1 and isinstance(plan.recompute.num_layers, tuple):
        problems.add("plan.recompute.num_layers", list(plan.recompute.num_layers), f"no lists under {schedule}")
    zero = 0 if plan.zero == 3 and shard_group == 1 else plan.zero  # FSDP over one rank shards nothing (NO_SHARD)
    _check_schedule(schedule, plan, m, training, problems)
    if len(problems) > before:
        return None
    if layers is None:
        layers = default_split(depth, parts, embedding=plan.embedding_as_layer, loss=plan.loss_as_layer)
    recompute = plan.recompute
    if recompute.policy == "selective":
        recompute = recompute.model_copy(update={"policy": "modules", "modules": SELECTIVE_MODULES})
    over = plan.overlap
    multiple = 128 * plan.tp
    padded = training.padded_vocab
    vocab = -(-model.vocab_size // multiple) * multiple if padded else model.vocab_size
    attention = training.attention if training.attention != "auto" else behaviour.attention
    if training.attention == "auto" and model.position_embedding == "relative":
        attention = "unfused"  # fused kernels take no learned additive bias (T5)
    fused_loss = behaviour.fused_cross_entropy if training.fused_cross_entropy is None else training.fused_cross_entropy

    return ResolvedPlan(
        tp=plan.tp,
        sp=switch(plan.sp, behaviour.sp) and plan.tp > 1,
        pp=plan.pp,
        vpp=plan.vpp,
        cp=plan.cp,
        cp_kind=plan.cp_kind,
        cp_all_to_all=plan.cp_all_to_all,
        ep=plan.ep,
        etp=plan.etp,
        dp=dp,
        zero=zero,
        shard_group=shard_group,
        mbs=plan.mbs,
        m=m,
        schedule=schedule,
        recompute=recompute,
        offload=plan.offload,
        reshard_after_forward=switch(plan.reshard_after_forward, plan.pp == 1 or bool(plan.gather_per_block)),
        overlap_grad_reduce=switch(over.grad_reduce, behaviour.overlap_grad_reduce),
        overlap_param_gather=switch(over.param_gather, behaviour.overlap_param_gather),
        overlap_tp=switch(over.tp, behaviour.overlap_tp),
        overlap_p2p=switch(over.p2p, behaviour.overlap_p2p),
        overlap_moe_a2a=switch(over.moe_a2a, behaviour.overlap_moe_a2a),
        fsdp_prefetch=switch(over.fsdp_prefetch, behaviour.fsdp_prefetch),
        attention=attention,
        fused_loss=fused_loss,
        cuda_graphs=training.cuda_graphs or behaviour.cuda_graphs,
        dispatcher=training.moe_dispatcher or behaviour.dispatcher,
        padded_vocab=float(vocab),
        stage_layers=tuple(layers) * copies,
        order=plan.order,
        tp_regather=behaviour.tp_regather,
        tp_bulk_overlap=behaviour.tp_bulk_overlap and over.tp is None,
        collectives=tuple(sorted(plan.collectives.items())),
        collective_library=plan.collective_library,
        copies=copies,
        expert_tokens=plan.expert_tokens,
        sequence_groups=plan.sequence_groups,
        expert_nodes=plan.expert_nodes,
        levels=plan.levels if zero == 3 else None,
        gathered_layers=plan.gathered_layers or 2,
        collective_sms=plan.collective_sms,
        join_branches=bool(plan.join_branches),
        compression=plan.compression,
        local_steps=plan.local_steps,
        one_communicator=zero == 3 and bool(over.one_communicator),
    )


def switch(given: bool | None, default: bool) -> bool:
    """A switch as given, else as the framework has it."""
    return default if given is None else given


def _check_training(model: ModelSpec, training: TrainingSpec, problems: ProblemList) -> None:
    """Adapters have known targets; measured expert loads are shares of every expert."""
    if training.phase == "lora" and training.lora is not None:
        known = LoraSpec().targets
        for target in training.lora.targets:
            if target not in known:
                problems.add("training.lora.targets", target, f"must be of {', '.join(known)}")
        if not training.lora.targets:
            problems.add("training.lora.targets", [], f"must name at least one of {', '.join(known)}")
    if training.lengths is not None and training.mean_document_length is not None:
        problems.add("training.mean_document_length", training.mean_document_length, "leave it out beside lengths")
    loads = training.expert_load.loads
    if training.expert_load.popularity is not None and (loads or training.expert_load.imbalance != 1.0):
        rule = "leave it out beside loads or imbalance: each says how uneven experts are"
        problems.add("training.expert_load.popularity", training.expert_load.popularity, rule)
    if loads and model.num_experts:
        if len(loads) != model.num_experts or min(loads) < 0 or abs(sum(loads) - 1.0) > 0.01:
            rule = f"must be {model.num_experts} shares, one an expert, none negative, that sum to 1"
            problems.add("training.expert_load.loads", f"{len(loads)} values, sum {sum(loads):g}", rule)


def _check_collectives(plan: PlanSpec, cluster: ClusterSpec, problems: ProblemList) -> None:
    """Named algorithms exist and do what they are named for."""
    axes = ("tp", "cp", "ep", "etp", "dp", "pp", "all")
    for key, algorithm in plan.collectives.items():
        field = f"plan.collectives.{key}"
        axis, _, op = key.partition(".")
        if axis not in axes or op not in OPS:
            rule = f"must be named AXIS.OPERATION, with an axis of {', '.join(axes)} and one of {', '.join(OPS)}"
            problems.add(field, algorithm, rule)
        elif algorithm not in ALGORITHMS:
            known = sorted(ALGORITHMS)
            rule = f"no such algorithm; known are {', '.join(known)}"
            problems.add(field, algorithm, rule, nearest=nearest_name(algorithm, known))
        elif op not in ALGORITHMS[algorithm].ops:
            problems.add(field, algorithm, f"does {', '.join(sorted(ALGORITHMS[algorithm].ops))}, not {op}")
        elif algorithm.startswith(("nvls", "put_switch")) and not cluster.scale_up.in_network_reduction:
            problems.add(field, algorithm, f"needs a scale-up network that reduces, and {cluster.scale_up.id} does not")
        elif algorithm.startswith("collnet") and not cluster.scale_out.in_network_reduction:
            problems.add(field, algorithm, "needs a scale-out network that reduces (in_network_reduction)")
    if plan.collective_sms is not None and plan.collective_sms > cluster.device.num_sms:
        rule = f"must be at most the {cluster.device.num_sms} SMs of {cluster.device.id}"
        problems.add("plan.collective_sms", plan.collective_sms, rule)
    library = plan.collective_library
    if library is not None and library not in SELECTORS:
        rule = f"no such library; known are {', '.join(SELECTORS)}"
        problems.add("plan.collective_library", library, rule, nearest=nearest_name(library, SELECTORS))


def _check_sent(plan: PlanSpec, model: ModelSpec, training: TrainingSpec, replicas: int, problems: ProblemList) -> None:
    """Compression and local steps go with the rest of the plan."""
    given = plan.compression
    if plan.levels is not None and (given.gradients or given.gather_bits):
        rule = "leave it out beside plan.levels, which has gather_bits and reduce_bits of its own"
        problems.add("plan.compression", "given", rule)
    if given.gradients is not None:
        field, kind = "plan.compression.gradients", given.gradients.kind
        if model.num_experts:
            problems.add(field, kind, f"must be absent: {model.name} has experts, whose gradients are not modelled so")
        if training.phase == "lora":
            problems.add(field, kind, "must be absent with adapters: their gradients are small as they are")
    if plan.local_steps is not None:
        if plan.zero:
            rule = "must be 0 with plan.local_steps: each replica steps with all its state"
            problems.add("plan.zero", plan.zero, rule)
        if given.gradients is not None:
            problems.add("plan.compression.gradients", given.gradients.kind, "leave it out beside plan.local_steps")
        if plan.offload.gradients:
            problems.add("plan.offload.gradients", plan.offload.gradients, "must be 0 with plan.local_steps")
        if replicas == 1:
            problems.add("plan.local_steps", plan.local_steps.steps, "needs more than one replica")


def _check_offload(offload: Offload, cluster: ClusterSpec, problems: ProblemList) -> None:
    """Nothing can go where a node has nothing, and shares of an update need one."""
    for name in TENSOR_CLASSES:
        if getattr(offload, name) and offload.tier_of(name) == "cxl" and cluster.cxl is None:
            own = f"{name}_tier" if getattr(offload, f"{name}_tier") else "tier"
            problems.add(f"plan.offload.{own}", "cxl", "needs the cards of a node in cluster.cxl")
    share = offload.update_on_device
    if share and not offload.optimizer:
        problems.add("plan.offload.update_on_device", share, "needs plan.offload.optimizer above 0")
    if share and offload.update == "beside_backward":
        rule = "must be 0 where update is beside_backward: the device computes backward then"
        problems.add("plan.offload.update_on_device", share, rule)


def _check_schedule(schedule: str, plan: PlanSpec, m: int, training: TrainingSpec, problems: ProblemList) -> None:
    """The schedule exists and can run these sizes."""
    known = schedules.list_ids()
    if schedule not in known:
        rule = f"no such schedule; known are {', '.join(known)}"
        problems.add("plan.schedule", schedule, rule, nearest=nearest_name(schedule, known))
        return
    if schedule.startswith("interleaved_1f1b") and plan.pp > 1 and m % plan.pp:
        low, high = nearest_divisors(plan.pp, m)
        problems.add(
            "training.global_batch",
            training.global_batch,
            f"interleaved_1f1b needs micro-batches ({m}) divisible by pp {plan.pp}; nearest are {low} and {high}",
        )
        return
    problem = schedules.describe(schedule).check(plan.pp, m, plan.vpp)
    if problem is not None:
        problems.add(f"plan.{problem.field}", problem.value, problem.rule)


def default_split(depth: int, parts: int, *, embedding: bool | None, loss: bool | None) -> tuple[int, ...]:
    """Even; with the ends counted as layers when asked, or when only that divides (Llama-3.1-405B: 126 + 2)."""
    if embedding is None and loss is None and depth % parts and (depth + 2) % parts == 0:
        embedding = loss = True
    split = split_layers(depth, parts, embedding=bool(embedding), loss=bool(loss))
    return split or split_layers(depth, parts, embedding=False, loss=False) or ()
