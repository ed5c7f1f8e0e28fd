"""Megatron-LM: command-line arguments of `pretrain_gpt.py` in a script.

Sources: the option list of each version is `flags/megatron-<version>.yaml`; what the options mean and which numbers are
refused, `megatron/training/arguments.py` and `megatron/core/transformer/transformer_config.py` of the same release; the
layout language (`E` embedding, `t` layer, `m` multi-token prediction, `L` loss, `|` between virtual stages),
`megatron/core/transformer/pipeline_parallel_layer_layout.py`.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from windtunnel.exporters import integers
from windtunnel.exporters.megatron_unsaid import activation_offload, unsaid
from windtunnel.exporters.switches import write_switches
from windtunnel.exporters.target import TARGETS, Draft, LaunchTarget, OptionList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windtunnel.errors import ProblemList
    from windtunnel.training.step_setup import PreparedStep

_FP8_RECIPE = {"fp8": "tensorwise", "fp8_block": "blockwise", "mxfp8": "mxfp8"}
ATTENTION = {"flash1": "flash", "flash2": "flash", "flash3": "flash", "cudnn": "fused", "unfused": "unfused"}
RECOMPUTE = {
    "core_attn": "core_attn",
    "mlp": "mlp",
    "norm": "layernorm",
    "moe": "moe",
    "moe_act": "moe_act",
    "shared_experts": "shared_experts",
    "mla_up_proj": "mla_up_proj",
}
CP_COMM = {"ring": "p2p", "all_to_all": "a2a", "all_gather": "allgather", "hybrid": "a2a+p2p"}


class _Arguments:
    """Arguments in named groups; an option that the version does not have is reported, not written."""

    def __init__(self, known: OptionList, draft: Draft) -> None:
        self.known, self.draft = known, draft
        self.groups: dict[str, list[tuple[str, ...]]] = {}
        self.group = ""

    def add(self, option: str, *values: Any) -> None:
        """Write an option, or say that this version lacks it."""
        refusal = self.known.refuses(option, *values)
        if refusal is not None:
            self.draft.lacks(refusal)
            return
        self.groups.setdefault(self.group, []).append((option, *map(str, values)))

    def lines(self) -> list[str]:
        """Shell arrays, one a group."""
        out: list[str] = []
        for group, entries in self.groups.items():
            out += [f"{group}=(", *("  " + shlex.join(words) for words in entries), ")"]
        return out

    def words(self) -> str:
        """The arrays as they stand on the command line."""
        return " ".join(f'"${{{group}[@]}}"' for group in self.groups)


def check(prepared: PreparedStep, problems: ProblemList) -> None:
    """Everything that Megatron asserts about these numbers before it builds the model."""
    plan, model = prepared.plan, prepared.model
    if model.family in ("encoder", "encoder_decoder", "vit", "hybrid", "linear_attention", "composed"):
        rule = "must be a decoder of attention blocks: pretrain_gpt.py builds no other kind from these arguments"
        problems.add("model.family", model.family, rule)
    for rule_of in (
        integers.world_size,
        integers.batch,
        integers.heads,
        integers.experts,
        integers.stages,
        integers.sequence,
        integers.shards,
    ):
        rule_of(prepared, problems)
    if plan.vpp > 1 and not plan.overlap_p2p and plan.pp == 2:
        problems.add("plan.pp", plan.pp, "interleaving without p2p overlap needs pp above 2")
    if model.num_experts and plan.tp > 1 and not plan.sp:
        problems.add("plan.sp", False, "must be true: Megatron trains experts with tp only under sequence parallelism")
    if plan.overlap_moe_a2a and plan.ep > 1:
        full = plan.recompute.policy == "full" or "moe" in plan.recompute.modules
        if full:
            problems.add("plan.overlap.moe_a2a", True, "must be false when whole layers or mixtures are recomputed")
        if plan.pp > 1 and plan.vpp == 1:
            problems.add("plan.overlap.moe_a2a", True, "must be false with a pipeline that is not interleaved (vpp 1)")
    if plan.zero >= 2 and prepared.training.optimizer not in ("adam", "sgd"):
        problems.add("training.optimizer", prepared.training.optimizer, "must be adam or sgd with Megatron-FSDP")


def write(prepared: PreparedStep, known: OptionList) -> Draft:
    """The arguments of one plan."""
    draft = Draft()
    arguments = _Arguments(known, draft)
    _model(prepared, arguments)
    _experts(prepared, arguments)
    _parallel(prepared, arguments)
    _memory(prepared, arguments)
    _precision(prepared, arguments)
    _work(prepared, arguments)
    arguments.group = "SWITCHES"
    write_switches(prepared, "megatron", draft, arguments.add)
    unsaid(prepared, draft)
    draft.megatron_environment(prepared)
    draft.setup = [
        ': "${MEGATRON_DIR:?set MEGATRON_DIR to a checkout of Megatron-LM ' + known.version + '}"',
        *arguments.lines(),
    ]
    draft.program = f'"$MEGATRON_DIR/pretrain_gpt.py" {arguments.words()}'
    draft.notes += [
        "data, tokenizer, --train-iters and --lr are stand-ins (mock data); arguments given to the script come last "
        "and win",
    ]
    return draft


def _model(prepared: PreparedStep, to: _Arguments) -> None:
    model, training, draft = prepared.model, prepared.training, to.draft
    to.group = "MODEL"
    to.add("--num-layers", model.num_hidden_layers)
    to.add("--hidden-size", model.hidden_size)
    to.add("--ffn-hidden-size", model.intermediate_size or model.moe_intermediate_size)
    to.add("--num-attention-heads", model.num_attention_heads)
    if model.is_mla:
        to.add("--multi-latent-attention")
        to.add("--qk-layernorm")  # the norms of the latents; without it gpt_layer_specs.py leaves them out
        if model.q_lora_rank:
            to.add("--q-lora-rank", model.q_lora_rank)
        to.add("--kv-lora-rank", model.kv_lora_rank)
        to.add("--qk-head-dim", model.qk_nope_head_dim)
        to.add("--qk-pos-emb-head-dim", model.qk_rope_head_dim)
        to.add("--v-head-dim", model.v_head_dim)
    else:
        to.add("--kv-channels", model.attention_head_dim)
        if model.kv_heads != model.num_attention_heads:
            to.add("--group-query-attention")
            to.add("--num-query-groups", model.kv_heads)
    to.add("--seq-length", training.seq_len)
    to.add("--max-position-embeddings", max(model.max_position_embeddings, training.seq_len))
    position = {"rope": "rope", "learned": "learned_absolute", "none": "none"}.get(model.position_embedding)
    if position is None:
        draft.lacks(f"position embedding {model.position_embedding}; written as none")
    to.add("--position-embedding-type", position or "none")
    if position == "rope":
        draft.notes.append("the base of rotary embeddings is no part of a plan: add --rotary-base as the model has it")
    to.add("--normalization", {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}[model.norm])
    _activation(prepared, to)
    if not model.mlp_bias:
        to.add("--disable-bias-linear")
        if model.attention_bias:
            to.add("--add-qkv-bias")
    if model.qk_norm and not model.is_mla:
        to.add("--qk-layernorm")
    if not model.tie_word_embeddings:
        to.add("--untie-embeddings-and-output-weights")
    if model.sliding_window:
        to.add("--window-size", f"{model.sliding_window},0")
        if model.sliding_window_pattern:
            to.add("--window-attn-skip-freq", model.sliding_window_pattern)
    if model.num_nextn_predict_layers:
        to.add("--mtp-num-layers", model.num_nextn_predict_layers)
    if not training.dropout:
        to.add("--attention-dropout", 0)
        to.add("--hidden-dropout", 0)
    for field, what in (
        ("post_norm", "norms after attention and MLP"),
        ("parallel_block", "attention and MLP side by side"),
        ("attention_sinks", "attention sinks"),
        ("global_head_dim", "another head size in global layers"),
        ("attention_k_eq_v", "keys used as values"),
    ):
        if getattr(model, field):
            draft.lacks(f"model.{field}: {what}")


def _activation(prepared: PreparedStep, to: _Arguments) -> None:
    model = prepared.model
    act = model.hidden_act
    if model.gated_mlp and act in ("silu", "swiglu", "swish"):
        to.add("--swiglu")
    elif not model.gated_mlp and act in ("relu2", "squared_relu"):
        to.add("--squared-relu")
    elif model.gated_mlp or not act.startswith("gelu"):
        gate = "gated " if model.gated_mlp else ""
        to.draft.lacks(f"activation {gate}{act}; Megatron would run gelu")
        if model.gated_mlp:
            to.draft.notes.append("the MLP is written without its gate: it has a third fewer parameters")


def _experts(prepared: PreparedStep, to: _Arguments) -> None:
    model, training, plan = prepared.model, prepared.training, prepared.plan
    if not model.num_experts:
        return
    to.group = "EXPERTS"
    to.add("--num-experts", model.num_experts)
    to.add("--moe-router-topk", model.num_experts_per_tok)
    to.add("--moe-ffn-hidden-size", model.moe_intermediate_size)
    shared = model.shared_expert_intermediate_size or model.n_shared_experts * model.moe_intermediate_size
    if shared:
        to.add("--moe-shared-expert-intermediate-size", shared)
    layers = [int(kind in "EX") for kind in model.layer_kinds()]
    if not all(layers):
        to.add("--moe-layer-freq", "[" + ",".join(map(str, layers)) + "]")
    to.add("--moe-grouped-gemm")
    to.draft.notes.append("how the router scores, groups and balances is no part of a plan: add it as the model has it")
    if model.capacity_factor:
        to.add("--moe-expert-capacity-factor", model.capacity_factor)
        if model.moe_pad_expert_input_to_capacity:
            to.add("--moe-pad-expert-input-to-capacity")
    if plan.dispatcher in ("deepep", "hybridep"):
        to.add("--moe-token-dispatcher-type", "flex")
        to.add("--moe-flex-dispatcher-backend", plan.dispatcher)
        to.add("--moe-router-dtype", "fp32")
    else:
        if plan.dispatcher == "einsum":
            to.draft.lacks("expert dispatch by einsum: tokens are permuted")
        to.add("--moe-token-dispatcher-type", plan.dispatcher.replace("einsum", "alltoall"))
    if training.fused_permute:
        to.add("--moe-permute-fusion")
    if training.expert_load.imbalance == 1.0 and training.expert_load.loads is None:
        to.add("--moe-router-force-load-balancing")
        to.draft.notes.append("balanced experts are forced as the plan assumes; drop the switch to train")
    else:
        to.draft.lacks(f"expert load with imbalance {training.expert_load.imbalance:g}: the router decides")


def layout(prepared: PreparedStep) -> str:
    """Virtual stages in depth order, in Megatron's layout language."""
    plan = prepared.plan
    parts = [f"t*{n}" if n > 1 else "t" * n for n in plan.stage_layers]
    parts[0] = "E" + parts[0]
    parts[-1] += "m" * prepared.model.num_nextn_predict_layers + "L"
    return "|".join(parts)


def _parallel(prepared: PreparedStep, to: _Arguments) -> None:
    plan, draft = prepared.plan, to.draft
    to.group = "PARALLEL"
    to.add("--tensor-model-parallel-size", plan.tp)
    if plan.sp:
        to.add("--sequence-parallel")
    to.add("--pipeline-model-parallel-size", plan.pp)
    if len(set(plan.stage_layers)) > 1:
        to.add("--pipeline-model-parallel-layout", layout(prepared))
    elif plan.vpp > 1:
        to.add("--num-virtual-stages-per-pipeline-rank", plan.vpp)
    to.add("--context-parallel-size", plan.cp)
    if plan.cp > 1:
        if plan.cp_kind in CP_COMM:
            to.add("--cp-comm-type", CP_COMM[plan.cp_kind])
        else:
            to.draft.lacks(f"context parallelism by {plan.cp_kind}: queries stay and keys and values move")
        if plan.cp_kind == "hybrid":
            sizes = (plan.cp_all_to_all, plan.cp // plan.cp_all_to_all)
            to.add("--hierarchical-context-parallel-sizes", *sizes)
    if prepared.model.num_experts:
        to.add("--expert-model-parallel-size", plan.ep)
        to.add("--expert-tensor-parallel-size", plan.etp)
    used = [axis for axis in plan.order if axis != "ep" and getattr(plan, axis) > 1]
    if used != [axis for axis in ("tp", "cp", "dp", "pp") if axis in used]:
        if used == [axis for axis in ("tp", "cp", "pp", "dp") if axis in used]:
            to.add("--use-tp-pp-dp-mapping")
        else:
            draft.lacks(f"rank order {'-'.join(plan.order)}: ranks will be laid out tp-cp-ep-dp-pp")
    _sharding(prepared, to)
    _overlap(prepared, to)


def _sharding(prepared: PreparedStep, to: _Arguments) -> None:
    plan = prepared.plan
    if plan.zero == 0 or prepared.training.optimizer == "muon":  # whole matrices on each rank: an optimizer of its own
        return
    to.add("--use-distributed-optimizer")
    copies = plan.dp * plan.cp // plan.shard_group
    if copies > 1:
        to.add("--num-distributed-optimizer-instances", copies)
    if plan.zero >= 2:
        to.add("--use-megatron-fsdp")
        strategy = "optim_grads" if plan.zero == 2 else "optim_grads_params"
        to.add("--data-parallel-sharding-strategy", strategy)
        to.add("--ckpt-format", "fsdp_dtensor")


def _overlap(prepared: PreparedStep, to: _Arguments) -> None:
    plan = prepared.plan
    gather = plan.overlap_param_gather and plan.zero > 0 and prepared.training.optimizer != "muon"
    if plan.overlap_grad_reduce or gather:
        to.add("--overlap-grad-reduce")
        if not plan.overlap_grad_reduce:
            to.draft.lacks("parameters gathered during computation but gradients not reduced so: both are switched on")
    if gather:
        to.add("--overlap-param-gather")
    if plan.overlap_tp and plan.tp > 1:
        if plan.sp:
            to.add("--tp-comm-overlap")
        else:
            to.draft.lacks("overlap of tensor-parallel communication without sequence parallelism")
    if plan.vpp > 1 and not plan.overlap_p2p:
        to.add("--no-overlap-p2p-communication")
    if plan.overlap_moe_a2a and plan.ep > 1:
        to.add("--overlap-moe-expert-parallel-comm")


def recompute_modules(prepared: PreparedStep, wanted: Sequence[str], draft: Draft) -> list[str]:
    """Modules to recompute in Megatron's words; those that the model does not have are refused, so left out."""
    model = prepared.model
    absent = {"mla_up_proj"} if not model.is_mla else set()
    absent |= {"moe", "moe_act", "shared_experts"} if not model.num_experts else set()
    found = []
    for module in wanted:
        if module not in RECOMPUTE:
            draft.lacks(f"recompute of {module}; known: {', '.join(RECOMPUTE)}")
        elif module in absent:
            draft.lacks(f"recompute of {module}: {model.name} has no such module")
        else:
            found.append(RECOMPUTE[module])
    return found


def _memory(prepared: PreparedStep, to: _Arguments) -> None:
    plan, draft = prepared.plan, to.draft
    to.group = "MEMORY"
    how = draft.recompute(plan)
    if how.policy == "full" and how.num_layers != 0:
        to.add("--recompute-granularity", "full")
        if how.num_layers is None:
            to.add("--recompute-method", "uniform")
            to.add("--recompute-num-layers", 1)
        else:
            to.add("--recompute-method", "block")
            to.add("--recompute-num-layers", -(-how.num_layers // plan.vpp))
            if how.num_layers % plan.vpp:
                whole = f"{how.num_layers} over {plan.vpp} virtual stages"
                draft.lacks(f"recompute.num_layers {whole}: Megatron counts a virtual stage; rounded up")
    elif how.policy == "modules":
        modules = recompute_modules(prepared, how.modules, draft)
        if modules:
            to.add("--recompute-granularity", "selective")
            to.add("--recompute-modules", *modules)
            if how.num_layers is not None:
                draft.lacks(f"recompute.num_layers {how.num_layers} of modules: all layers recompute them")
    offload = plan.offload
    if offload.optimizer:
        to.add("--optimizer-cpu-offload")
        to.add("--optimizer-offload-fraction", f"{offload.optimizer:g}")
        to.add("--use-precision-aware-optimizer")
    away = activation_offload(prepared, draft, has_fraction="--activation-offload-fraction" in to.known.kinds)
    if away.layers:
        to.add("--cpu-offloading-num-layers", away.layers)
    elif away.modules:
        to.add("--fine-grained-activation-offloading")
        to.add("--offload-modules", *away.modules)
        if away.fraction < 1:
            to.add("--activation-offload-fraction", f"{away.fraction:g}")


def _precision(prepared: PreparedStep, to: _Arguments) -> None:
    training, plan, draft = prepared.training, prepared.plan, to.draft
    to.group = "PRECISION"
    precision = training.precision
    if precision == "fp16":
        to.add("--fp16")
    elif precision not in ("fp32", "tf32"):
        to.add("--bf16")
    if precision in _FP8_RECIPE:
        to.add("--fp8-format", "e4m3" if precision != "fp8" else "hybrid")
        to.add("--fp8-recipe", _FP8_RECIPE[precision])
    elif precision == "nvfp4":
        to.add("--fp4-format", "e2m1")
        to.add("--fp4-recipe", "nvfp4")
    elif precision in ("fp8_rowwise", "mxfp4", "int8"):
        draft.lacks(f"precision {precision}: written as bf16")
    if training.grad_reduce_precision == "bf16":
        to.add("--grad-reduce-in-bf16")
    elif training.grad_reduce_precision == "fp16" and precision != "fp16":
        draft.lacks("gradients reduced in fp16")
    if training.master_weights in ("bf16", "none"):
        draft.lacks(f"master weights {training.master_weights}: Megatron keeps them in fp32")
    backend = ATTENTION.get(plan.attention)
    if backend is None:
        draft.lacks(f"attention kernel {plan.attention}: Transformer Engine chooses")
    to.add("--attention-backend", backend or "auto")
    if not plan.fused_rope:
        to.add("--no-rope-fusion")
    if plan.fused_loss:
        to.add("--cross-entropy-loss-fusion")
        to.add("--cross-entropy-fusion-impl", "native")
    if plan.cuda_graphs == "full":
        to.add("--cuda-graph-impl", "full_iteration")
        to.add("--no-check-for-nan-in-loss-and-grad")
    elif plan.cuda_graphs != "none":
        to.add("--cuda-graph-impl", "transformer_engine")
        parts = {"attention": ("attn",), "moe": ("moe_router", "moe_preprocess")}.get(plan.cuda_graphs, ())
        if parts:
            newer = "--cuda-graph-modules" in to.known.kinds
            to.add("--cuda-graph-modules" if newer else "--cuda-graph-scope", *parts)
        to.add("--te-rng-tracker")
    if training.padded_vocab is False:
        to.add("--no-pad-vocab-size")
    if training.compile:
        draft.lacks("compile: Megatron compiles its fused element-wise functions only")
    if training.mean_document_length:
        draft.lacks("packed documents with attention inside each: mock data is not packed")


def _work(prepared: PreparedStep, to: _Arguments) -> None:
    training, plan, model = prepared.training, prepared.plan, prepared.model
    to.group = "TRAINING"
    to.add("--micro-batch-size", plan.mbs)
    to.add("--global-batch-size", training.global_batch)
    to.add("--train-iters", 100)
    to.add("--lr", "1e-4")
    if training.optimizer != "adam":
        name = "dist_muon" if training.optimizer == "muon" and plan.zero else training.optimizer
        refusal = to.known.refuses("--optimizer", name)
        if refusal is None:
            to.add("--optimizer", name)
        else:
            to.draft.lacks(f"optimizer {training.optimizer}: written as adam")
    if training.gradients == "zeroth_order":
        to.draft.lacks("steps of zeroth order: it runs backward passes")
    if training.phase == "lora":
        to.draft.lacks("low-rank adapters: all parameters train")
    to.add("--mock-data")
    to.add("--tokenizer-type", "NullTokenizer")
    to.add("--vocab-size", model.vocab_size)
    to.add("--transformer-impl", "transformer_engine")


TARGETS.add("megatron", LaunchTarget("megatron", "Megatron-LM", check, write))
