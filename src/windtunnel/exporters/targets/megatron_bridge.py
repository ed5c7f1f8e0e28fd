"""Megatron-Bridge: a Python file that takes a recipe's `ConfigContainer` and sets the plan on it.

Sources: fields, `flags/megatron_bridge-<version>.yaml`; how overlap settings win over those of the model and of data
parallelism, `megatron/bridge/training/comm_overlap.py`; numbers are refused by the same core as Megatron-LM's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.exporters.megatron_unsaid import activation_offload, unsaid
from windtunnel.exporters.switches import write_switches
from windtunnel.exporters.target import TARGETS, Draft, LaunchTarget, OptionList
from windtunnel.exporters.targets.megatron import ATTENTION, CP_COMM, check, layout, recompute_modules
from windtunnel.exporters.wrappers import comment
from windtunnel.stacks.recipes import recipe_asked

if TYPE_CHECKING:
    from windtunnel.training.step_setup import PreparedStep

_PRECISION = {
    "bf16": "bf16_mixed",
    "fp16": "fp16_mixed",
    "fp8": "bf16_with_fp8_current_scaling_mixed",
    "fp8_block": "bf16_with_fp8_subchannel_scaling_mixed",
    "mxfp8": "bf16_with_mxfp8_mixed",
    "nvfp4": "bf16_with_nvfp4_mixed",
}
_HEAD = '''\
"""Settings of one plan for a Megatron-Bridge recipe; `RECIPE` names it as module:function."""
{comment}
import importlib
import os

import torch
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.pretrain import pretrain
from megatron.core.transformer.enums import AttnBackend


def apply(cfg):
    """Set the plan on a recipe's configuration and return it."""
'''
_TAIL = '''\
    return cfg


def main():
    """Build the recipe, set the plan, train."""
    module, _, name = os.environ["RECIPE"].partition(":")
    pretrain(config=apply(getattr(importlib.import_module(module), name)()), forward_step_func=forward_step)


if __name__ == "__main__":
    main()
'''


class _Name:
    """A Python expression that stands as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class _Settings:
    """Assignments to `cfg.<section>.<field>`; a field that the version does not have is reported, not written."""

    def __init__(self, known: OptionList, draft: Draft) -> None:
        self.known, self.draft = known, draft
        self.lines: list[str] = []

    def set(self, name: str, value: Any) -> None:
        """Write an assignment, or say that this version lacks the field."""
        refusal = self.known.refuses(name, value)
        if refusal is None or (value is None and name in self.known.kinds):
            self.lines.append(f"    cfg.{name} = {value!r}")
        else:
            self.draft.lacks(refusal)


def write(prepared: PreparedStep, known: OptionList) -> Draft:
    """The settings of one plan."""
    draft = Draft()
    to = _Settings(known, draft)
    _work(prepared, to)
    _model(prepared, to)
    _parallel(prepared, to)
    _overlap(prepared, to)
    _memory(prepared, to)
    _precision(prepared, to)
    write_switches(prepared, "megatron_bridge", draft, to.set)
    unsaid(prepared, draft)
    draft.megatron_environment(prepared)
    recipe = _stated_recipe(prepared)
    recipe = recipe or next((entry["recipe"] for entry in known.models if entry["id"] == prepared.model.name), None)
    if recipe is None:
        draft.lacks(
            f"model {prepared.model.name}: no recipe of this name is known here; set RECIPE to one of its shape"
        )
        draft.setup = [': "${RECIPE:?set RECIPE to module:function of a recipe with this model}"']
    else:
        draft.setup = [f'RECIPE="${{RECIPE:-{recipe}}}"']
    draft.setup.append("export RECIPE")
    draft.program = '"$HERE/plan_overrides.py"'
    draft.notes.append("data, learning rate and length of training are the recipe's; the plan's settings come last")
    text = (
        _HEAD.format(comment=comment(f"not expressible, left out: {item}" for item in draft.unsupported))
        + "\n".join(to.lines)
        + "\n"
        + _TAIL
    )
    draft.files["plan_overrides.py"] = text
    return draft


def _stated_recipe(prepared: PreparedStep) -> str | None:
    """The recipe that the scenario names, as module:function; None where its file is a script and no module."""
    training = prepared.training
    named = recipe_asked(training.recipe, "megatron_bridge", training.framework_version) if training.recipe else None
    path = named.source.split()[1] if named else ""
    if named is None or not path.startswith("src/") or not path.endswith(".py"):
        return None
    return f"{path.removeprefix('src/').removesuffix('.py').replace('/', '.')}:{named.name}"


def _work(prepared: PreparedStep, to: _Settings) -> None:
    training, plan = prepared.training, prepared.plan
    to.set("train.micro_batch_size", plan.mbs)
    to.set("train.global_batch_size", training.global_batch)
    to.set("model.seq_length", training.seq_len)
    to.set("dataset.seq_length", training.seq_len)
    if training.optimizer in ("adam", "sgd", "muon"):
        owners = training.optimizer == "muon" and plan.zero > 0  # Megatron-Core's layer-wise optimizer
        to.set("optimizer.optimizer", "dist_muon" if owners else training.optimizer)
    else:
        to.draft.lacks(f"optimizer {training.optimizer}: the recipe's is kept")
    if training.gradients == "zeroth_order":
        to.draft.lacks("steps of zeroth order: it runs backward passes")
    if training.phase == "lora":
        to.draft.lacks("low-rank adapters: choose a peft recipe; this file sets a pretraining one")


def _model(prepared: PreparedStep, to: _Settings) -> None:
    model, training, plan, draft = prepared.model, prepared.training, prepared.plan, to.draft
    to.set("model.num_layers", model.num_hidden_layers)
    to.set("model.hidden_size", model.hidden_size)
    to.set("model.vocab_size", model.vocab_size)
    to.set("model.num_attention_heads", model.num_attention_heads)
    if not model.is_mla:
        to.set("model.num_query_groups", model.kv_heads)
    to.set("model.ffn_hidden_size", model.intermediate_size or model.moe_intermediate_size)
    to.set("model.mtp_num_layers", model.num_nextn_predict_layers or None)
    if not model.num_experts:
        return
    to.set("model.num_moe_experts", model.num_experts)
    to.set("model.moe_router_topk", model.num_experts_per_tok)
    to.set("model.moe_ffn_hidden_size", model.moe_intermediate_size)
    if model.capacity_factor:
        to.set("model.moe_expert_capacity_factor", model.capacity_factor)
        to.set("model.moe_pad_expert_input_to_capacity", model.moe_pad_expert_input_to_capacity)
    flex = plan.dispatcher in ("deepep", "hybridep")
    if plan.dispatcher == "einsum":
        draft.lacks("expert dispatch by einsum: tokens are permuted")
    named = plan.dispatcher.replace("einsum", "alltoall")
    to.set("model.moe_token_dispatcher_type", "flex" if flex else named)
    if flex:
        to.set("model.moe_flex_dispatcher_backend", plan.dispatcher)
    if training.fused_permute is not None:
        to.set("model.moe_permute_fusion", training.fused_permute)
    if training.expert_load.imbalance == 1.0 and training.expert_load.loads is None:
        to.set("model.moe_router_force_load_balancing", True)
        draft.notes.append("balanced experts are forced as the plan assumes; drop the setting to train")
    else:
        draft.lacks(f"expert load with imbalance {training.expert_load.imbalance:g}: the router decides")


def _parallel(prepared: PreparedStep, to: _Settings) -> None:
    plan, draft = prepared.plan, to.draft
    to.set("model.tensor_model_parallel_size", plan.tp)
    to.set("model.sequence_parallel", plan.sp)
    to.set("model.pipeline_model_parallel_size", plan.pp)
    to.set("model.virtual_pipeline_model_parallel_size", plan.vpp if plan.vpp > 1 else None)
    to.set("model.pipeline_dtype", _Name("torch.bfloat16" if prepared.training.precision != "fp16" else "torch.half"))
    uneven = len(set(plan.stage_layers)) > 1
    to.set("model.pipeline_model_parallel_layout", layout(prepared) if uneven else None)
    for end in ("first", "last"):
        to.set(f"model.num_layers_in_{end}_pipeline_stage", None)
    for end in ("embedding", "loss"):
        to.set(f"model.account_for_{end}_in_pipeline_split", False)
    to.set("model.context_parallel_size", plan.cp)
    if plan.cp > 1:
        if plan.cp_kind in CP_COMM:
            to.set("model.cp_comm_type", CP_COMM[plan.cp_kind])
        else:
            draft.lacks(f"context parallelism by {plan.cp_kind}: queries stay and keys and values move")
        if plan.cp_kind == "hybrid":
            sizes = [plan.cp_all_to_all, plan.cp // plan.cp_all_to_all]
            to.set("model.hierarchical_context_parallel_sizes", sizes)
    to.set("model.expert_model_parallel_size", plan.ep)
    to.set("model.expert_tensor_parallel_size", plan.etp)
    used = [axis for axis in plan.order if axis != "ep" and getattr(plan, axis) > 1]
    if used != [axis for axis in ("tp", "cp", "dp", "pp") if axis in used]:
        if used == [axis for axis in ("tp", "cp", "pp", "dp") if axis in used]:
            to.set("dist.use_tp_pp_dp_mapping", True)
        else:
            draft.lacks(f"rank order {'-'.join(plan.order)}: ranks will be laid out tp-cp-ep-dp-pp")
    ranges = plan.zero > 0 and prepared.training.optimizer != "muon"
    to.set("ddp.use_distributed_optimizer", ranges)
    to.set("optimizer.use_distributed_optimizer", ranges)
    if ranges:
        to.set("ddp.num_distributed_optimizer_instances", plan.dp * plan.cp // plan.shard_group)
    if plan.zero >= 2:
        to.set("dist.use_megatron_fsdp", True)
        to.set("ddp.use_megatron_fsdp", True)
        strategy = "optim_grads" if plan.zero == 2 else "optim_grads_params"
        to.set("ddp.data_parallel_sharding_strategy", strategy)
        to.set("checkpoint.ckpt_format", "fsdp_dtensor")


def _overlap(prepared: PreparedStep, to: _Settings) -> None:
    plan = prepared.plan
    gather = plan.overlap_param_gather and plan.zero > 0 and prepared.training.optimizer != "muon"
    to.lines.append(f"    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap={plan.overlap_tp and plan.sp})")
    if plan.overlap_tp and plan.tp > 1 and not plan.sp:
        to.draft.lacks("overlap of tensor-parallel communication without sequence parallelism")
    to.set("comm_overlap.overlap_grad_reduce", plan.overlap_grad_reduce or gather)
    if gather and not plan.overlap_grad_reduce:
        to.draft.lacks("parameters gathered during computation but gradients not reduced so: both are switched on")
    to.set("comm_overlap.overlap_param_gather", gather)
    to.set("comm_overlap.overlap_p2p_comm", plan.overlap_p2p and plan.vpp > 1)
    to.set("comm_overlap.overlap_moe_expert_parallel_comm", plan.overlap_moe_a2a and plan.ep > 1)


def _memory(prepared: PreparedStep, to: _Settings) -> None:
    plan, draft = prepared.plan, to.draft
    how = draft.recompute(plan)
    granularity: str | None = None
    method: str | None = None
    count: int | None = None
    modules: list[str] = []
    if how.policy == "full" and how.num_layers != 0:
        granularity, method, count = "full", "uniform", 1
        if how.num_layers is not None:
            method, count = "block", -(-how.num_layers // plan.vpp)
            if how.num_layers % plan.vpp:
                whole = f"{how.num_layers} over {plan.vpp} virtual stages"
                draft.lacks(f"recompute.num_layers {whole}: Megatron counts a virtual stage; rounded up")
    elif how.policy == "modules":
        modules = recompute_modules(prepared, how.modules, draft)
        granularity = "selective" if modules else None
        if how.num_layers is not None:
            draft.lacks(f"recompute.num_layers {how.num_layers} of modules: all layers recompute them")
    to.set("model.recompute_granularity", granularity)
    to.set("model.recompute_method", method)
    to.set("model.recompute_num_layers", count)
    to.set("model.recompute_modules", modules or None)
    offload = plan.offload
    if offload.optimizer:
        to.set("optimizer.optimizer_cpu_offload", True)
        to.set("optimizer.optimizer_offload_fraction", offload.optimizer)
        to.set("optimizer.use_precision_aware_optimizer", True)
    away = activation_offload(prepared, draft, has_fraction="model.activation_offload_fraction" in to.known.kinds)
    if away.layers:
        to.set("model.cpu_offloading", True)
        to.set("model.cpu_offloading_num_layers", away.layers)
    elif away.modules:
        to.set("model.fine_grained_activation_offloading", True)
        to.set("model.offload_modules", list(away.modules))
        if away.fraction < 1:
            to.set("model.activation_offload_fraction", away.fraction)


def _precision(prepared: PreparedStep, to: _Settings) -> None:
    training, plan, draft = prepared.training, prepared.plan, to.draft
    recipe = _PRECISION.get(training.precision)
    if recipe is None:
        draft.lacks(f"precision {training.precision}: written as bf16")
    to.set("mixed_precision", recipe or "bf16_mixed")
    if training.grad_reduce_precision:
        draft.lacks(f"gradients reduced in {training.grad_reduce_precision}: the precision recipe decides")
    if training.master_weights in ("bf16", "none"):
        draft.lacks(f"master weights {training.master_weights}: Megatron keeps them in fp32")
    backend = ATTENTION.get(plan.attention)
    if backend is None:
        draft.lacks(f"attention kernel {plan.attention}: Transformer Engine chooses")
    to.set("model.attention_backend", _Name(f"AttnBackend.{backend or 'auto'}"))
    to.set("model.apply_rope_fusion", plan.fused_rope)
    to.set("model.cross_entropy_loss_fusion", plan.fused_loss)
    if plan.fused_loss:
        to.set("model.cross_entropy_fusion_impl", "native")
    if plan.cuda_graphs == "none":
        to.set("model.cuda_graph_impl", "none")
    else:
        parts = {"attention": ["attn"], "moe": ["moe_router", "moe_preprocess"]}.get(plan.cuda_graphs, [])
        to.set("model.cuda_graph_impl", "full_iteration" if plan.cuda_graphs == "full" else "transformer_engine")
        to.set("model.cuda_graph_modules", parts)
        to.set("model.use_te_rng_tracker", True)
        to.set("rng.te_rng_tracker", True)
    if training.compile:
        draft.lacks("compile: Megatron compiles its fused element-wise functions only")


TARGETS.add("megatron_bridge", LaunchTarget("megatron_bridge", "Megatron-Bridge", check, write))
