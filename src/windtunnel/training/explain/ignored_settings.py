"""Settings that a scenario states and that do not act on its prediction: each is named in a warning."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from windtunnel.cost.framework_defaults import FULL_PRECISION
from windtunnel.parallel.expert import FUSED_DISPATCHERS
from windtunnel.parallel.precision import MATRIX_FORMAT
from windtunnel.specs.cluster import ClusterRef, MixedCluster, groups_of
from windtunnel.specs.plan import TENSOR_CLASSES, Offload
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.stage_costs.autocast import casts_weights
from windtunnel.training.step_setup import PreparedStep


def ignored_settings(scenario: Scenario, prepared: PreparedStep) -> tuple[str, ...]:
    """One sentence a setting that has no effect here, or only part of its effect."""
    found = (*_training(scenario, prepared), *_plan(scenario, prepared), *_around(scenario, prepared))
    return tuple(f"{field} {why}" for field, why in found)


def _given(spec: BaseModel | None, prefix: str, why: dict[str, str | None]) -> Iterator[tuple[str, str]]:
    """Fields that were written down and for which there is a reason why they do nothing."""
    for field, reason in why.items():
        if spec is not None and reason and field in spec.model_fields_set:
            yield f"{prefix}.{field}", f"has no effect: {reason}"


def _no_autocast(training: TrainingSpec, x: PreparedStep) -> str | None:
    """Why `autocast: true` does nothing."""
    if not training.autocast or casts_weights(x.behaviour, x.plan):
        return None
    if training.precision in FULL_PRECISION:
        return f"under {training.precision} nothing is cast"
    if x.plan.zero == 3:
        return "with sharded parameters (zero 3) weights are gathered in the format of the products"
    return f"{training.framework} keeps its weights in the format of the products"


def _training(scenario: Scenario, x: PreparedStep) -> Iterator[tuple[str, str]]:
    training, plan = x.training, x.plan
    dense = None if x.model.num_experts else f"{x.model.name} has no experts"
    fp8 = training.precision.startswith(("fp8", "mxfp8"))
    applies = ("eager", "compiled") if training.compile else ("eager",)
    yield from _given(
        training,
        "training",
        {
            "framework_version": "coefficients are not told apart by version",
            "dropout": "dropout is counted with unfused attention only, and always there",
            "decoder_seq_len": None
            if x.model.family == "encoder_decoder"
            else f"{x.model.name} has no decoder of its own",
            "lora": None if training.phase == "lora" else f"training.phase is {training.phase}",
            "compile": None if x.behaviour.style in applies else f"kernels of {training.framework} stay as they are",
            "autocast": _no_autocast(training, x),
            "float8_all_gather": None if fp8 and plan.zero == 3 else "it needs an fp8 precision and zero 3",
            "gradient_accumulation_sync": None if plan.zero == 3 else "it is a switch of FSDP (zero 3)",
            "moe_dispatcher": dense,
            "moe_gate": dense,
            "fused_permute": dense,
            "fused_experts": dense,
            "expert_load": dense,
        },
    )
    if training.optimizer == "muon":
        yield "training.optimizer muon", "is counted like momentum: its Newton-Schulz products are not in the step"
    if training.optimizer_in_backward and plan.m > 1:
        yield "training.optimizer_in_backward", f"cannot accumulate the {plan.m} micro-batches: memory is too low here"
    if training.precision in FULL_PRECISION:
        if training.attention not in ("auto", "sdpa", "unfused"):
            yield f"training.attention {training.attention}", "has no fp32 kernel; PyTorch's memory-efficient one runs"
        if training.master_weights not in (None, "fp32"):
            why = f"has no effect: under {training.precision} the weights are the master copy"
            yield f"training.master_weights {training.master_weights}", why
    for device in {group.device.id: group.device for group in groups_of(x.cluster)}.values():
        if MATRIX_FORMAT[training.precision] not in device.peak_flop_per_s:
            yield f"training.precision {training.precision}", f"is no format of {device.id}; nearest rate taken"


def _plan(scenario: Scenario, x: PreparedStep) -> Iterator[tuple[str, str]]:
    plan, given = x.plan, scenario.plan
    dense = None if x.model.num_experts else f"{x.model.name} has no experts"
    unsharded = None if plan.zero == 3 else f"it is a switch of FSDP (zero 3), and zero is {plan.zero}"
    layerwise = "zero 3 gathers and reduces layer by layer" if plan.zero == 3 else None
    one_cp = "cp is 1" if plan.cp == 1 else None
    yield from _given(
        given,
        "plan",
        {
            "cp_kind": one_cp,
            "cp_all_to_all": one_cp or (None if plan.cp_kind == "hybrid" else "cp_kind is not hybrid"),
            "sequence_groups": None if x.training.lengths else "training.lengths is absent: all sequences are alike",
            "expert_nodes": dense
            or (
                None
                if plan.dispatcher in FUSED_DISPATCHERS
                else (f"the dispatcher {plan.dispatcher} sends a token once to each expert, however many share a node")
            ),
            "expert_tokens": dense or ("tp is 1" if plan.tp == 1 else None),
            "sp": "tp is 1" if plan.tp == 1 else None,
            "etp": dense,
            "reshard_after_forward": unsharded,
            "shard_group": None if plan.zero else "zero is 0",
            "gathered_layers": unsharded,
            "levels": "nothing is sharded" if given.levels is not None and plan.levels is None else None,
            "group_axis": None
            if isinstance(x.cluster, MixedCluster)
            else "the cluster has no groups of unlike devices",
        },
    )
    yield from _given(
        given.overlap,
        "plan.overlap",
        {
            "grad_reduce": layerwise,
            "param_gather": layerwise,
            "fsdp_prefetch": unsharded,
            "one_communicator": unsharded,
            "moe_a2a": dense,
            "tp": "tp is 1" if plan.tp == 1 else None,
            "p2p": "pp is 1" if plan.pp == 1 else None,
        },
    )
    policy = given.recompute.policy
    yield from _given(
        given.recompute,
        "plan.recompute",
        {
            "modules": None if policy == "modules" else f"policy is {policy}",
            "num_layers": "policy is none" if policy == "none" else None,
            "keep_collectives": None if policy == "full" else f"policy is {policy}",
        },
    )
    yield from _given(given.offload, "plan.offload", _offload(plan.offload))
    if "order" in given.model_fields_set and plan.ep > 1 and "ep" in plan.order and plan.order.index("ep") != 2:
        yield "plan.order", "does not place ep: expert groups are cut from neighbouring ranks inside a stage"


def _offload(away: Offload) -> dict[str, str | None]:
    """Fields of `plan.offload` that have nothing to act on."""
    nothing = None if away.any else "nothing is offloaded"
    copied = None if away.params or away.activations or away.gradients else "no layer's tensors are offloaded"
    update = None if away.optimizer else "no optimizer state is offloaded"
    out = {name: nothing for name in ("tier", "stripe", "pinned_bytes")}
    out |= {f"{name}_tier": None if getattr(away, name) else f"no {name} are offloaded" for name in TENSOR_CLASSES}
    some = away.gradients or away.params
    out["gradients_in_place"] = None if some else "weights and gradients stay on the device"
    on_device = update or (None if away.update_on_device else "update_on_device is 0")
    out["widening"] = update
    return out | {"prefetch_layers": copied, "update": update, "update_subgroup": on_device}


def _around(scenario: Scenario, x: PreparedStep) -> Iterator[tuple[str, str]]:
    unread = "`train` does not read it"
    yield from _given(scenario, "scenario", {"serving": unread, "search": unread})
    if isinstance(scenario.cluster, ClusterRef):
        away = x.plan.offload
        tiers = {away.tier_of(name) for name in TENSOR_CLASSES if getattr(away, name)}
        unread_host = None if tiers else "nothing is offloaded"
        host = ("host_memory_bytes", "host_memory_bytes_per_s", "host_cores", "devices_per_host_link")
        unused: dict[str, str | None] = dict.fromkeys(host, unread_host)
        unused["storage"] = None if "nvme" in tiers else "nothing is offloaded to drives"
        unused["cxl"] = None if "cxl" in tiers else "nothing is offloaded to CXL memory"
        yield from _given(scenario.cluster, "cluster", unused)
        out = scenario.cluster.scale_out
        if not isinstance(out, str):
            plain = out is None or out.fabric is None
            rule = "rates and oversubscription describe the network; state `fabric` for its switches"
            yield from _given(out, "cluster.scale_out", {"topology": rule if plain else None})
