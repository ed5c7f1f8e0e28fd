"""Rules that a plan must keep to, given a model, a cluster and the work: each check adds every problem it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from windtunnel import schedules
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.errors import ProblemList, nearest_name
from windtunnel.network.algorithm_choice import SELECTORS
from windtunnel.network.collectives import ALGORITHMS, OPS
from windtunnel.parallel.plan_sizes import MAX_INSTRUCTIONS, PlanSizes, nearest_divisors, switch
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import RECOMPUTE_MODULES, TENSOR_CLASSES, Offload, PlanSpec
from windtunnel.specs.workload import AdapterTarget, TrainingSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCase:
    """A plan with everything that its rules look at."""

    model: ModelSpec
    cluster: ClusterSpec
    training: TrainingSpec
    plan: PlanSpec
    behaviour: Behaviour
    sizes: PlanSizes


def check_plan(case: PlanCase, problems: ProblemList) -> None:
    """Add everything that is wrong with a plan."""
    _check_replicas(case, problems)
    _check_batch(case, problems)
    _check_axes(case, problems)
    _check_training(case.model, case.training, problems)
    _check_collectives(case.plan, case.cluster, problems)
    _check_offload(case.plan.offload, case.cluster, problems)
    _check_stages(case, problems)
    _check_sharding(case, problems)
    _check_sent(case.plan, case.model, case.training, case.sizes.ranks, problems)
    _check_gathers(case, problems)
    _check_schedule(case.sizes.schedule, case.plan, case.sizes.m, case.training, problems)


def _check_replicas(case: PlanCase, problems: ProblemList) -> None:
    """Replicas fill the cluster."""
    plan, devices, inner = case.plan, case.sizes.devices, case.sizes.inner
    if plan.dp == "auto":
        if devices % inner:
            low, high = nearest_divisors(inner, devices)
            rule = f"must divide the {devices} devices of the cluster; nearest cluster sizes are {low} and {high}"
            if inner > devices:
                rule = f"is more than the {devices} devices of the cluster; it needs {inner}, or {2 * inner}"
            problems.add("plan", f"tp {plan.tp} · pp {plan.pp} · cp {plan.cp} = {inner}", rule)
    elif plan.dp * inner != devices:
        rule = f"tp · pp · cp · dp = {plan.dp * inner} must equal the {devices} devices; use auto or {devices // inner}"
        problems.add("plan.dp", plan.dp, rule)
    if plan.batch_shares is not None:
        problems.add("plan.batch_shares", plan.batch_shares, "needs groups of unlike devices (cluster.groups)")


def _check_batch(case: PlanCase, problems: ProblemList) -> None:
    """Passes of zeroth order have replicas of their own; the batch divides into micro-batches, and not too many."""
    training, plan, sizes = case.training, case.plan, case.sizes
    if training.perturbations_apart and (training.gradients != "zeroth_order" or sizes.dp % 2):
        rule = "needs training.gradients zeroth_order and an even number of replicas"
        problems.add("training.perturbations_apart", True, rule)
    if training.directions > 1 and training.gradients != "zeroth_order":
        problems.add("training.directions", training.directions, "needs training.gradients zeroth_order")
    if training.gradients == "zeroth_order" and (plan.pp > 1 or training.phase == "lora"):
        problems.add("training.gradients", "zeroth_order", "needs pp 1 and all weights trained (no lora)")
    if training.reference_passes and (plan.pp > 1 or training.gradients == "zeroth_order"):
        problems.add("training.reference_passes", training.reference_passes, "needs pp 1 and gradients by backward")
    if sizes.dp * sizes.inner == sizes.devices and training.global_batch % sizes.sequences:
        low, high = nearest_divisors(sizes.sequences, training.global_batch)
        problems.add(
            "training.global_batch",
            training.global_batch,
            f"must be divisible by mbs · dp = {plan.mbs} · {sizes.dp} = {sizes.sequences}; "
            f"nearest are {low} and {high}",
        )
    if sizes.m * plan.pp * plan.vpp > MAX_INSTRUCTIONS:
        problems.add(
            "training.global_batch",
            training.global_batch,
            f"makes {sizes.m} micro-batches per replica; pp · vpp · micro-batches must be at most {MAX_INSTRUCTIONS}",
        )


def _check_axes(case: PlanCase, problems: ProblemList) -> None:
    """Tensor, expert and context axes divide what they cut."""
    model, training, plan, dp = case.model, case.training, case.plan, case.sizes.dp
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
    if plan.expert_tokens != "split" and (plan.etp != plan.tp or (plan.tp > 1 and switch(plan.sp, case.behaviour.sp))):
        rule = f"needs etp = tp ({plan.tp}) and sp false; with sequence parallelism tokens are split"
        problems.add("plan.expert_tokens", plan.expert_tokens, rule)
    if plan.sequence_groups != "fixed" and plan.cp_kind == "hybrid":
        rule = "must be fixed with cp_kind hybrid: groups of other sizes have no inner axis"
        problems.add("plan.sequence_groups", plan.sequence_groups, rule)


def _check_stages(case: PlanCase, problems: ProblemList) -> None:
    """Layers fit the virtual stages, and recomputed layers are counted by them."""
    model, plan, depth = case.model, case.plan, case.sizes.depth
    parts, copies = case.sizes.virtual_stages, case.sizes.copies
    if plan.pp == 1 and plan.vpp > 1 and not _layer_by_layer(plan):
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
    if copies > 1 and isinstance(counts, tuple):
        problems.add("plan.recompute.num_layers", list(counts), f"no lists under {case.sizes.schedule}")


def _layer_by_layer(plan: PlanSpec) -> bool:
    """Whether one device takes layer after layer, each for all its micro-batches."""
    return plan.schedule == "breadth_first" and bool(plan.gather_per_block)


def _check_sharding(case: PlanCase, problems: ProblemList) -> None:
    """Shard groups and the levels inside them divide the ranks."""
    plan, ranks, shard_group = case.plan, case.sizes.ranks, case.sizes.shard_group
    if ranks % shard_group:
        problems.add("plan.shard_group", shard_group, f"must divide dp · cp = {ranks}")
    for name in ("params", "params_again", "gradients"):
        size = getattr(plan.levels, name, None)
        if size is not None and shard_group % size:
            problems.add(f"plan.levels.{name}", size, f"must divide the {shard_group} ranks of a shard group")
    if plan.levels is not None and plan.zero != 3:
        problems.add("plan.levels", "given", "needs zero 3")


def _check_gathers(case: PlanCase, problems: ProblemList) -> None:
    """Gathers of whole blocks need sharded parameters that are given up again."""
    plan = case.plan
    if plan.gather_per_block and not (plan.zero == 3 and (plan.pp > 1 or _layer_by_layer(plan))):
        rule = "needs zero 3, and a pipeline or schedule breadth_first, which takes layer after layer"
        problems.add("plan.gather_per_block", True, rule)
    if plan.gather_per_block and plan.reshard_after_forward is False:
        problems.add("plan.gather_per_block", True, "needs parameters that are given up again (reshard_after_forward)")


def _check_training(model: ModelSpec, training: TrainingSpec, problems: ProblemList) -> None:
    """Adapters have known targets; measured expert loads are shares of every expert."""
    if training.phase == "lora" and training.lora is not None:
        known = get_args(AdapterTarget)
        for target in training.lora.targets:
            if target not in known:
                problems.add("training.lora.targets", target, f"must be of {', '.join(known)}")
        if not training.lora.targets:
            problems.add("training.lora.targets", [], f"must name at least one of {', '.join(known)}")
    if training.lengths is not None and training.mean_document_length is not None:
        problems.add("training.mean_document_length", training.mean_document_length, "leave it out with lengths")
    loads = training.expert_load.loads
    if training.expert_load.popularity is not None and (loads or training.expert_load.imbalance != 1.0):
        rule = "leave it out with loads or imbalance: each says how uneven experts are"
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
        rule = "leave it out with plan.levels, which has gather_bits and reduce_bits of its own"
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
            problems.add("plan.compression.gradients", given.gradients.kind, "leave it out with plan.local_steps")
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
