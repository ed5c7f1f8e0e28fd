"""The plain values of a resolved step on which declarations of switches decide whether a setting acts."""

from __future__ import annotations

from windtunnel.parallel.expert import FUSED_DISPATCHERS
from windtunnel.specs.cluster import MixedCluster
from windtunnel.specs.plan import TENSOR_CLASSES, Recompute
from windtunnel.specs.switches import StepFacts
from windtunnel.stacks.defaults import release_note
from windtunnel.training.stage_costs.autocast import casts_weights
from windtunnel.training.step_setup import PreparedStep


def step_facts(prepared: PreparedStep, recompute: Recompute | None = None) -> StepFacts:
    """The facts of one step.

    Args:
        prepared: The step.
        recompute: Recomputation as the plan writes it; absent: as it is resolved.
    """
    plan, training, model = prepared.plan, prepared.training, prepared.model
    styles = ("eager", "compiled") if training.compile else ("eager",)
    return StepFacts(
        model=model.name,
        has_experts=bool(model.num_experts),
        has_decoder=model.family == "encoder_decoder",
        framework=training.framework,
        release_note=release_note(training.framework, training.framework_version),
        precision=training.precision,
        phase=training.phase,
        compile_acts=prepared.behaviour.style in styles,
        autocast=training.autocast,
        casts_weights=casts_weights(prepared.behaviour, plan),
        keeps_master_weights=training.optimizer == "adam",
        has_lengths=bool(training.lengths),
        heterogeneous=isinstance(prepared.cluster, MixedCluster),
        tp=plan.tp,
        pp=plan.pp,
        cp=plan.cp,
        ep=plan.ep,
        has_reduce_buckets=plan.zero > 0 and prepared.behaviour.reduce_bucket_params > 0.0,
        gathers_in_buckets=plan.zero in (1, 2)
        and prepared.behaviour.shard_optimizer
        and not (training.optimizer == "muon" and prepared.behaviour.muon_owners),
        replicas=plan.dp * plan.cp,
        zero=plan.zero,
        cp_kind=plan.cp_kind,
        dispatcher=plan.dispatcher,
        sends_once_per_node=plan.dispatcher in FUSED_DISPATCHERS,
        shards_by_level=plan.levels is not None,
        overlap_grad_reduce=plan.overlap_grad_reduce,
        overlap_param_gather=plan.overlap_param_gather,
        averages_weights=plan.local_steps is not None,
        recompute=(recompute or plan.recompute).policy,
        offloaded=frozenset(name for name in TENSOR_CLASSES if getattr(plan.offload, name)),
        update_on_device=plan.offload.update_on_device,
    )
