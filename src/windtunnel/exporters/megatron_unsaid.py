"""What Megatron-Core has no option for, and its two ways of offloading activations: the same for all that drive it.

Sources: `megatron/core/transformer/transformer_config.py` and `megatron/training/arguments.py` of releases 0.17.1 to
0.19.2 (`cpu_offloading_num_layers`: whole layers, fewer than all, without a pipeline, recomputation or CUDA graphs;
`fine_grained_activation_offloading`: inputs of named modules, `activation_offload_fraction` of them from 0.19 on);
`megatron/core/pipeline_parallel/schedules.py` (1F1B waits for each transfer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from windtunnel.exporters.target import Draft
from windtunnel.specs.plan import TENSOR_CLASSES

if TYPE_CHECKING:
    from windtunnel.training.step_setup import PreparedStep

SCHEDULES = ("1f1b", "interleaved_1f1b", "interleaved_1f1b_steady")
OFFLOADED = ("attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm")
"""Modules whose inputs fine-grained offloading takes to the host; what lies inside an MLP stays."""
EXPERTS_OFFLOADED = ("expert_fc1", "moe_act")


@dataclass(frozen=True, slots=True)
class ActivationOffload:
    """Layers that are offloaded whole, or modules whose inputs are, and the share of them."""

    layers: int = 0
    modules: tuple[str, ...] = ()
    fraction: float = 1.0


def activation_offload(prepared: PreparedStep, draft: Draft, *, has_fraction: bool) -> ActivationOffload:
    """A share of the activations, by whole layers where Megatron does that, else by module.

    Args:
        prepared: the step.
        draft: takes what cannot be written.
        has_fraction: whether the release offloads a share of the modules.
    """
    plan, share = prepared.plan, prepared.plan.offload.activations
    if not share:
        return ActivationOffload()
    depth = sum(plan.stage_layers)
    what = f"offload of {share:g} of the activations"
    again = plan.recompute.policy != "none" and plan.recompute.num_layers != 0
    if plan.pp == 1 and not again and plan.cuda_graphs == "none":
        layers = min(max(round(share * depth), 1), depth - 1)
        if layers != share * depth:
            draft.lacks(f"{what}: {layers} of {depth} layers are written, fewer than all")
        return ActivationOffload(layers=layers)
    if plan.recompute.policy == "full" and again:
        draft.lacks(f"{what} next to recomputation of whole layers")
        return ActivationOffload()
    inside = EXPERTS_OFFLOADED if prepared.model.num_experts and "moe" not in plan.recompute.modules else ()
    draft.lacks(f"{what}: inputs of {', '.join(OFFLOADED + inside)} are written; what else a layer keeps stays")
    if not has_fraction and share < 1:
        draft.lacks(f"{what}: this release offloads these modules in all layers")
    draft.environment["NVTE_CPU_OFFLOAD_V1"] = "1"  # Transformer Engine's newer way would take weights along
    return ActivationOffload(modules=OFFLOADED + inside, fraction=share if has_fraction else 1.0)


def unsaid(prepared: PreparedStep, draft: Draft) -> None:
    """Switches of a plan that Megatron-Core decides by itself, where its choice is another."""
    plan = prepared.plan
    runs = "interleaved 1F1B" if plan.vpp > 1 else "1F1B"
    steady = plan.schedule == "interleaved_1f1b_steady" and plan.m == plan.pp
    if plan.pp > 1 and (plan.schedule not in SCHEDULES or steady):
        draft.lacks(f"schedule {plan.schedule}: Megatron will run {runs}")
    if plan.pp > 1 and plan.vpp == 1 and not plan.overlap_p2p:
        draft.lacks("overlap.p2p false with one chunk a stage: there is no switch; 1F1B sends as it does")
    if plan.tp > 1 and not plan.overlap_tp and not plan.tp_bulk_overlap:
        draft.lacks("tensor-parallel communication without overlap: layers overlap it in backward by themselves")
    if plan.zero == 3 and not plan.fsdp_prefetch:
        draft.lacks("overlap.fsdp_prefetch false: Megatron-FSDP fetches the next layer's parameters ahead")
    if plan.zero == 3 and not plan.reshard_after_forward:
        draft.lacks("reshard_after_forward false: Megatron-FSDP gathers again for backward")
    if plan.recompute.early_stop is not None and plan.recompute.policy != "none":
        early = str(plan.recompute.early_stop).lower()
        draft.lacks(f"recompute.early_stop {early}: Megatron's checkpoints have no such switch")
    if plan.offload.params:
        draft.lacks(f"offload of {plan.offload.params:g} of the parameters")
    tiers = {plan.offload.tier_of(name) for name in TENSOR_CLASSES if getattr(plan.offload, name)}
    if plan.offload.gradients:
        draft.lacks(f"offload of {plan.offload.gradients:g} of the gradients")
    if tiers - {"host"}:
        draft.lacks("offload beyond host memory: host memory is used")
