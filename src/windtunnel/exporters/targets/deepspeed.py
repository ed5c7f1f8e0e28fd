"""DeepSpeed: its JSON configuration and a launcher for the user's training script.

DeepSpeed wraps a model that the script builds, so sizes of the model, the sequence length and what is recomputed stay
with the script; the notes say which.

Sources: fields, `flags/deepspeed-<version>.yaml`; which combinations are refused, `deepspeed/runtime/config.py` (batch
assertion), `deepspeed/runtime/pipe/engine.py` and `deepspeed/module_inject/auto_ep_folding.py` of the same release.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from windtunnel.exporters import integers
from windtunnel.exporters.switches import write_switches
from windtunnel.exporters.target import TARGETS, Draft, LaunchTarget, OptionList

if TYPE_CHECKING:
    from windtunnel.errors import ProblemList
    from windtunnel.training.step_setup import PreparedStep

_OPTIMIZERS = {"adam": "AdamW", "sgd": "SGD", "lion": "Lion", "muon": "Muon"}


class _Json:
    """Fields by dotted name; one that the version does not have is reported, not written."""

    def __init__(self, known: OptionList, draft: Draft) -> None:
        self.known, self.draft = known, draft
        self.tree: dict[str, Any] = {}

    def set(self, name: str, value: Any) -> None:
        """Write a field, or say that this version lacks it."""
        refusal = self.known.refuses(name, value)
        if refusal is not None:
            self.draft.lacks(refusal)
            return
        *path, field = name.split(".")
        node = self.tree
        for part in path:
            node = node.setdefault(part, {})
        node[field] = value


def check(prepared: PreparedStep, problems: ProblemList) -> None:
    """Everything that DeepSpeed asserts about these numbers when it starts."""
    plan, model = prepared.plan, prepared.model
    for rule_of in (integers.world_size, integers.batch, integers.heads, integers.experts, integers.stages):
        rule_of(prepared, problems)
    if plan.pp > 1 and plan.zero >= 2:
        problems.add("plan.zero", plan.zero, "must be 0 or 1 with a pipeline")
    if plan.cp > 1 and model.num_attention_heads % plan.cp:
        rule = f"must divide num_attention_heads {model.num_attention_heads}: sequences are cut by all-to-all"
        problems.add("plan.cp", plan.cp, rule)
    if plan.tp > 1 and plan.cp > 1:
        problems.add("plan.cp", plan.cp, "must be 1 with tp: cutting sequences and automatic tp exclude each other")
    if plan.cp > 1 and plan.pp > 1:
        problems.add("plan.cp", plan.cp, "must be 1 with a pipeline: its grid has no axis for sequences")
    if not model.num_experts:
        return
    if plan.etp > 1:
        problems.add("plan.etp", plan.etp, "must be 1")
    if plan.tp > 1 and plan.ep == 1:
        problems.add("plan.ep", plan.ep, "must be above 1 with tp")
    if plan.tp > 1 and plan.pp > 1:
        problems.add("plan.pp", plan.pp, "must be 1 for experts with tp")
    if plan.tp > 1 and (plan.offload.optimizer or plan.offload.params):
        problems.add("plan.offload", "optimizer or params", "must be off for experts with tp")


def write(prepared: PreparedStep, known: OptionList) -> Draft:
    """The configuration of one plan."""
    draft = Draft()
    to = _Json(known, draft)
    plan, training = prepared.plan, prepared.training
    to.set("train_batch_size", training.global_batch)
    to.set("train_micro_batch_size_per_gpu", plan.mbs)
    to.set("gradient_accumulation_steps", plan.m)
    _zero(prepared, to)
    _precision(prepared, to)
    _parallel(prepared, to)
    _optimizer(prepared, to)
    _rest(prepared, to)
    write_switches(prepared, "deepspeed", draft, to.set)
    draft.files["ds_config.json"] = json.dumps(to.tree, indent=2) + "\n"
    draft.setup = [': "${TRAIN_SCRIPT:?set TRAIN_SCRIPT to the script that calls deepspeed.initialize}"']
    draft.program = '"$TRAIN_SCRIPT" --deepspeed --deepspeed_config "$HERE/ds_config.json"'
    draft.notes.append(
        f"the script builds {prepared.model.name} and cuts its data into sequences of {training.seq_len} tokens"
    )
    return draft


def _zero(prepared: PreparedStep, to: _Json) -> None:
    plan, draft = prepared.plan, to.draft
    to.set("zero_optimization.stage", plan.zero)
    if plan.zero:
        to.set("zero_optimization.overlap_comm", plan.overlap_grad_reduce)
        to.set("zero_optimization.contiguous_gradients", True)
        to.set("zero_optimization.reduce_scatter", True)
        if plan.shard_group < plan.dp * plan.cp:
            draft.lacks(f"shard_group {plan.shard_group}: states are sharded over all {plan.dp * plan.cp} ranks")
    elif plan.overlap_grad_reduce:
        draft.lacks("gradients reduced during backward at stage 0")
    if (size := plan.switches.ddp_bucket_size) and plan.zero:
        to.set("zero_optimization.reduce_bucket_size", size)
        to.set("zero_optimization.allgather_bucket_size", size)
    elif size:
        draft.lacks(f"ddp_bucket_size {size}: buckets of stage 0 have the program's own size")
    if plan.zero in (1, 2) and plan.overlap_param_gather:
        draft.lacks("parameters gathered during computation before stage 3")
    if plan.zero == 3:
        if not plan.fsdp_prefetch:
            to.set("zero_optimization.stage3_prefetch_bucket_size", 0)
        if not plan.reshard_after_forward:
            draft.lacks("reshard_after_forward false: stage 3 releases parameters after use")
    if plan.levels is not None:
        if plan.levels.params_again:
            to.set("zero_optimization.zero_hpz_partition_size", plan.levels.params_again)
        if plan.levels.gather_bits < 16:
            to.set("zero_optimization.zero_quantized_weights", True)
        if plan.levels.reduce_bits in (4, 8):
            to.set("zero_optimization.zero_quantized_gradients", True)
        if plan.levels.params or plan.levels.gradients:
            draft.lacks("levels of weights and gradients: both are cut over all ranks")
    if plan.offload.gradients and not plan.offload.optimizer:
        draft.lacks(f"offload of {plan.offload.gradients:g} of the gradients: they go where optimizer state goes")
    for kind, share in (("optimizer", plan.offload.optimizer), ("param", plan.offload.params)):
        if not share:
            continue
        tier = plan.offload.tier_of("params" if kind == "param" else "optimizer")
        device = "nvme" if tier == "nvme" else "cpu"
        if tier == "cxl":
            draft.lacks(f"offload of {kind}s to CXL memory: host memory is used")
        section = f"zero_optimization.offload_{kind}"
        if plan.zero == 0 or (kind == "param" and plan.zero < 3):
            draft.lacks(f"offload of {kind}s at stage {plan.zero}")
            continue
        to.set(f"{section}.device", device)
        if device == "nvme":
            to.set(f"{section}.nvme_path", "/local_nvme")
            draft.notes.append(f"{section}.nvme_path is a stand-in")
        if kind == "optimizer" and share < 1 and plan.zero == 3:
            to.set(f"{section}.ratio", share)
        elif share < 1:
            draft.lacks(f"offload of {share:g} of the {kind}s: all of them go")


def _precision(prepared: PreparedStep, to: _Json) -> None:
    training, draft = prepared.training, to.draft
    precision = training.precision
    if precision == "fp16":
        to.set("fp16.enabled", True)
    elif precision not in ("fp32", "tf32"):
        to.set("bf16.enabled", True)
        if precision != "bf16":
            draft.lacks(f"precision {precision}: written as bf16")
        if training.master_weights in ("bf16", "none"):
            if prepared.plan.zero:
                to.set("bf16.bf16_master_weights_and_grads", True)
            else:
                draft.lacks(f"master weights {training.master_weights} at stage 0")
    if training.grad_reduce_precision:
        to.set("communication_data_type", training.grad_reduce_precision)


def _parallel(prepared: PreparedStep, to: _Json) -> None:
    plan, model, draft = prepared.plan, prepared.model, to.draft
    if plan.pp > 1:
        to.set("pipeline.stages", plan.pp)
        draft.notes.append(
            f"the script gives a PipelineModule of num_stages {plan.pp}: the JSON does not split a model"
        )
        if plan.overlap_p2p:
            draft.lacks("overlap.p2p true: there is no switch; its pipeline engine sends between instructions")
        if len(set(plan.stage_layers)) > 1 or plan.vpp > 1:
            draft.lacks(f"stages of {list(plan.stage_layers)} layers: PipelineModule splits by its partition_method")
        if plan.vpp > 1 or plan.schedule != "1f1b":
            draft.lacks(f"schedule {plan.schedule} with vpp {plan.vpp}: 1F1B with one chunk a stage will run")
    if plan.tp > 1:
        if plan.pp > 1:
            draft.lacks(f"tp {plan.tp} with a pipeline: the script's layers must be sharded by its own mpu")
        else:
            to.set("tensor_parallel.autotp_size", plan.tp)
            if plan.overlap_tp:
                to.set("tensor_parallel.tp_overlap_comm", True)
        if plan.sp:
            draft.lacks("sequence parallelism on the tensor axis: every rank of tp keeps whole sequences")
    if plan.cp > 1:
        to.set("sequence_parallel_size", plan.cp)
        to.set("data_parallel_size", plan.dp)
        if plan.cp_kind != "all_to_all":
            draft.lacks(f"context parallelism by {plan.cp_kind}: heads and sequence are exchanged (all_to_all)")
    if model.num_experts and plan.ep > 1:
        to.set("expert_parallel.enabled", True)
        to.set("expert_parallel.autoep_size", plan.ep)
        to.set("expert_parallel.expert_tensor_parallel_size", plan.etp)
        if plan.dispatcher == "deepep":
            to.set("expert_parallel.comm_backend", "deepep")
        elif plan.dispatcher not in ("alltoall", "einsum"):
            draft.lacks(f"expert dispatch by {plan.dispatcher}: all-to-all is used")
        if plan.overlap_moe_a2a:
            draft.lacks("expert all-to-all during computation")
    used = [axis for axis in plan.order if axis != "ep" and getattr(plan, axis) > 1]
    if used != [axis for axis in ("tp", "cp", "dp", "pp") if axis in used]:
        draft.lacks(f"rank order {'-'.join(plan.order)}: ranks will be laid out tp-cp-dp-pp")


def _optimizer(prepared: PreparedStep, to: _Json) -> None:
    training = prepared.training
    if training.optimizer == "none":
        return
    name = _OPTIMIZERS.get(training.optimizer)
    if name is None:
        to.draft.lacks(f"optimizer {training.optimizer}: written as AdamW")
    to.set("optimizer.type", name or "AdamW")
    to.set("optimizer.params", {"lr": 1e-4})
    to.draft.notes.append("the learning rate is a stand-in")
    if training.optimizer_in_backward:
        to.draft.lacks("optimizer steps inside backward")


def _rest(prepared: PreparedStep, to: _Json) -> None:
    training, plan, draft = prepared.training, prepared.plan, to.draft
    how = draft.recompute(plan)
    if how.policy == "full" and plan.pp > 1 and how.num_layers is None:
        to.set("pipeline.activation_checkpoint_interval", 1)
    elif how.policy != "none":
        what = ", ".join(how.modules) if how.policy == "modules" else "layers"
        count = "" if how.num_layers is None else f" ({how.num_layers} a stage)"
        draft.lacks(f"recompute of {what}{count}: the script switches it on in its model")
    if plan.offload.activations:
        if how.policy == "full" and plan.offload.activations == 1.0:
            to.set("activation_checkpointing.cpu_checkpointing", True)
        else:
            draft.lacks(f"offload of {plan.offload.activations:g} of the activations")
    for given, what in (
        (training.compile, "compile: the script calls engine.compile()"),
        (plan.fused_loss, "fused cross entropy: the script's model has it or not"),
        (plan.cuda_graphs != "none", f"CUDA graphs ({plan.cuda_graphs})"),
        (training.gradients == "zeroth_order", "steps of zeroth order: it runs backward passes"),
        (training.phase == "lora", "low-rank adapters: the script adds them"),
    ):
        if given:
            draft.lacks(what)
    draft.notes.append(f"attention is planned as {plan.attention}: the script's model chooses the kernel")


TARGETS.add("deepspeed", LaunchTarget("deepspeed", "DeepSpeed", check, write))
