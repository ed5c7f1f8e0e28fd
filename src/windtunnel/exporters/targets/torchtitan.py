"""torchtitan: a TOML file (to 0.2) or a Python configuration (from 0.3), with the exact stage split.

Sources: fields, `flags/torchtitan-<version>.yaml`; what they mean and which numbers are refused,
`torchtitan/distributed/{parallel_dims,pipeline_parallel}.py` and `torchtitan/models/*/infra/parallelize.py` of the same
release; what the schedules ask of micro-batches, `torch/distributed/pipelining/schedules.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.exporters import integers
from windtunnel.exporters.switches import write_switches
from windtunnel.exporters.target import TARGETS, Draft, LaunchTarget, OptionList
from windtunnel.exporters.torchtitan_files import PythonConfig, TomlConfig
from windtunnel.exporters.wrappers import comment

if TYPE_CHECKING:
    from windtunnel.errors import ProblemList
    from windtunnel.specs.model import ModelSpec
    from windtunnel.training.step_setup import PreparedStep

_SCHEDULES = {
    "1f1b": "1F1B",
    "gpipe": "GPipe",
    "interleaved_1f1b": "Interleaved1F1B",
    "interleaved_1f1b_steady": "Interleaved1F1B",
    "breadth_first": "LoopedBFS",
    "zb_v": "ZBVZeroBubble",
    "dualpipev": "DualPipeV",
}
_SINGLE = ("1F1B", "GPipe")
_ROUNDS = ("Interleaved1F1B", "InterleavedZeroBubble")


def _shards(prepared: PreparedStep) -> tuple[int, int]:
    """(replicate degree, shard degree) over data parallelism; FSDP shards over shard degree · cp."""
    plan = prepared.plan
    if plan.zero == 0:
        return plan.dp, 1
    shard = max(plan.shard_group // plan.cp, 1)
    return plan.dp // shard, shard


def check(prepared: PreparedStep, problems: ProblemList) -> None:
    """Everything that torchtitan asserts about these numbers before it builds the model."""
    plan, model = prepared.plan, prepared.model
    if model.family in ("encoder", "encoder_decoder", "vit", "hybrid", "linear_attention", "composed"):
        problems.add("model.family", model.family, "must be a decoder of attention blocks: torchtitan brings no other")
    integers.world_size(prepared, problems)
    integers.batch(prepared, problems)
    integers.heads(prepared, problems, kv_must_divide=True)
    integers.experts(prepared, problems)
    integers.stages(prepared, problems, interleaved_needs_multiple=False)
    integers.sequence(prepared, problems)
    integers.shards(prepared, problems)
    if plan.zero and plan.shard_group % plan.cp:
        problems.add("plan.shard_group", plan.shard_group, f"must be a multiple of cp {plan.cp}: FSDP shards over cp")
    _, shard = _shards(prepared)
    ranks = shard * plan.cp * plan.tp
    if plan.ep > 1 and ranks % (plan.ep * plan.etp):
        rule = f"ep · etp must divide dp_shard · cp · tp = {ranks}, the ranks of one shard group"
        problems.add("plan.ep", plan.ep, rule)
    if plan.ep > 1 and plan.etp not in (1, plan.tp):
        problems.add("plan.etp", plan.etp, f"must be 1 or tp {plan.tp}")
    if plan.zero == 0 and plan.dp > 1 and plan.tp * plan.pp * plan.cp > 1:
        problems.add("plan.zero", 0, "must be above 0: replicas without sharding run only without tp, pp and cp")
    if model.is_mla and plan.cp > 1:
        problems.add("plan.cp", plan.cp, "must be 1: its latent-attention models take no context parallelism")
    if model.is_mla and plan.tp > 1 and prepared.training.precision == "fp8":
        rule = "per-tensor fp8 with tp is not implemented for its latent-attention models"
        problems.add("training.precision", "fp8", rule, nearest="fp8_rowwise")
    if plan.pp > 1:
        name = _schedule(prepared)[0]
        if name in _SINGLE and plan.vpp > 1:
            problems.add("plan.vpp", plan.vpp, f"must be 1 with schedule {plan.schedule}")
        if name not in _SINGLE and plan.vpp < 2:
            problems.add("plan.vpp", plan.vpp, f"must be at least 2 with schedule {plan.schedule}")
        rounds = max(plan.m // plan.pp, 1)
        if name in _ROUNDS and plan.m % rounds:
            rule = (
                f"makes {plan.m} micro-batches, which {name} cuts into {rounds} rounds; use a multiple of pp {plan.pp}"
            )
            problems.add("training.global_batch", prepared.training.global_batch, rule)


def _schedule(prepared: PreparedStep) -> tuple[str, bool]:
    """(torchtitan's schedule, whether it is the plan's)."""
    plan = prepared.plan
    if plan.schedule == "zb_1p" and plan.vpp > 1:
        return "InterleavedZeroBubble", True
    name = _SCHEDULES.get(plan.schedule)
    if name is not None:
        return name, not (plan.schedule == "interleaved_1f1b" and plan.m == plan.pp)  # torchtitan's is the steady one
    return ("1F1B" if plan.vpp == 1 else "Interleaved1F1B"), False


def write(prepared: PreparedStep, known: OptionList) -> Draft:
    """The configuration of one plan."""
    draft = Draft()
    to = TomlConfig(known, draft) if "job.config_file" in known.kinds else PythonConfig(known, draft)
    _model(prepared, to)
    _training(prepared, to)
    _parallelism(prepared, to)
    _memory(prepared, to)
    write_switches(prepared, "torchtitan", draft, to.set)
    training, plan = prepared.training, prepared.plan
    to.set("compile.enable", bool(training.compile))
    if plan.fused_loss and not training.compile:
        draft.lacks("fused cross entropy without compile")
    whole = plan.cuda_graphs == "full" and plan.pp == plan.ep == 1 and "training.disable_cuda_graphs" in known.kinds
    if "training.disable_cuda_graphs" in known.kinds:
        to.set("training.disable_cuda_graphs", not whole)
    if plan.cuda_graphs != "none" and not whole:
        draft.lacks(f"CUDA graphs ({plan.cuda_graphs})")
    if training.expandable_segments is not False:
        draft.environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    draft.notes.append("data, tokenizer, steps and learning rate are stand-ins; options given to the script win")
    text = to.text()  # may report more
    head = [f"torchtitan {known.version}", *(f"not expressible, left out: {item}" for item in draft.unsupported)]
    draft.files[to.file] = f"{comment(head)}\n{text}"
    draft.program = to.program
    if isinstance(to, PythonConfig):
        draft.setup.append('export PYTHONPATH="$HERE${PYTHONPATH:+:$PYTHONPATH}"')
    return draft


def _flavor(model: ModelSpec, known: OptionList) -> tuple[str, str] | None:
    """The model and flavor of these sizes that the release brings along."""
    for entry in known.models:
        sizes = {key: size for key, size in entry.items() if key not in ("name", "flavor")}
        sizes.setdefault("num_experts", 0)
        sizes.setdefault("kv_lora_rank", None)
        if all(getattr(model, key) == size for key, size in sizes.items()) and model.qk_norm == (
            entry["name"] == "qwen3"
        ):
            return entry["name"], entry["flavor"]
    return None


def _model(prepared: PreparedStep, to: TomlConfig) -> None:
    model, training = prepared.model, prepared.training
    found = _flavor(model, to.known)
    if found is None:
        to.draft.lacks(
            f"model {model.name}: release {to.known.version} brings no flavor of these sizes; register one and name it "
            "in [model]"
        )
    name, flavor = found or ("REPLACE", "REPLACE")
    to.set("model.name", name)
    to.set("model.flavor", flavor)
    to.set("model.hf_assets_path", f"./assets/hf/{model.name.rsplit('/', 1)[-1]}")
    if model.num_nextn_predict_layers:
        to.draft.lacks("multi-token prediction: the layers after the last are left out")
    precision = training.precision
    if precision in ("fp8", "fp8_rowwise"):
        to.set("model.converters", ["quantize.linear.float8"])
        if precision == "fp8_rowwise":
            to.set("quantize.linear.float8.recipe_name", "rowwise")
        to.set("quantize.linear.float8.enable_fsdp_float8_all_gather", training.float8_all_gather)
        to.set("quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp", training.float8_all_gather)
        to.set("quantize.linear.float8.filter_fqns", ["output"])
    elif precision == "mxfp8":
        to.set("model.converters", ["quantize.linear.mx"])
        to.set("quantize.linear.mx.recipe_name", "mxfp8_cublas")
    elif precision not in ("bf16", "fp32", "tf32"):
        to.draft.lacks(f"precision {precision}: written as bf16")
    if model.num_experts and precision in ("fp8", "fp8_rowwise", "mxfp8"):
        to.draft.lacks(f"precision {precision} of the experts' products: a prototype there, left in bf16")
    if isinstance(to, PythonConfig):
        to.draft.lacks(f"attention kernel {prepared.plan.attention}: flex attention runs")
    elif prepared.plan.attention != "sdpa":
        to.draft.lacks(f"attention kernel {prepared.plan.attention}: PyTorch chooses")


def _training(prepared: PreparedStep, to: TomlConfig) -> None:
    training, plan = prepared.training, prepared.plan
    to.set("training.seq_len", training.seq_len)
    to.set("training.local_batch_size", plan.mbs * (plan.m if plan.pp > 1 else 1))
    to.set("training.global_batch_size", training.global_batch)
    to.set("training.steps", 100)
    to.set("training.dataset", "c4_test")
    full = training.precision in ("fp32", "tf32")
    to.set("training.mixed_precision_param", "float32" if full else "bfloat16")
    to.set("training.mixed_precision_reduce", "float32")
    if training.grad_reduce_precision in ("bf16", "fp16"):
        to.draft.lacks(f"gradients reduced in {training.grad_reduce_precision}: fp32 is used")
    if training.master_weights in ("bf16", "none"):
        to.set("training.dtype", "bfloat16")
    to.set("optimizer.name", "AdamW")
    if training.optimizer != "adam":
        to.draft.lacks(f"optimizer {training.optimizer}: written as AdamW")
    if training.optimizer_in_backward:
        to.set("optimizer.early_step_in_backward", True)
    if training.gradients == "zeroth_order":
        to.draft.lacks("steps of zeroth order: it runs backward passes")
    if training.phase == "lora":
        to.draft.lacks("low-rank adapters: all parameters train")
    if prepared.model.num_experts:
        if training.expert_load.imbalance == 1.0 and training.expert_load.loads is None:
            to.set("debug.moe_force_load_balance", True)
            to.draft.notes.append("balanced experts are forced as the plan assumes; drop debug.moe_force_load_balance")
        else:
            to.draft.lacks(f"expert load with imbalance {training.expert_load.imbalance:g}: the router decides")


def _parallelism(prepared: PreparedStep, to: TomlConfig) -> None:
    plan, draft = prepared.plan, to.draft
    replicate, shard = _shards(prepared)
    to.set("parallelism.data_parallel_replicate_degree", replicate)
    to.set("parallelism.data_parallel_shard_degree", shard)
    keeps = plan.zero < 3 or not plan.reshard_after_forward
    default = plan.zero == 3 and plan.reshard_after_forward == (plan.pp == 1)
    to.set("parallelism.fsdp_reshard_after_forward", "default" if default else "never" if keeps else "always")
    if plan.zero in (1, 2) and shard * plan.cp > 1:
        draft.lacks(f"zero {plan.zero}: FSDP shards parameters too, and keeps them from forward to backward")
    if plan.zero == 0 and plan.cp > 1:
        draft.lacks("zero 0 with cp: FSDP shards over cp")
    if size := plan.switches.ddp_bucket_size:
        draft.lacks(f"ddp_bucket_size {size}: FSDP reduces a block at a time")
    to.set("parallelism.tensor_parallel_degree", plan.tp)
    if plan.tp > 1 and "parallelism.enable_sequence_parallel" in to.known.kinds:
        to.set("parallelism.enable_sequence_parallel", plan.sp)
    elif plan.tp > 1 and not plan.sp:
        draft.lacks("tp without sequence parallelism: it is always on")
    if plan.tp > 1 and plan.overlap_tp:
        if prepared.training.compile:
            to.set("parallelism.enable_async_tensor_parallel", True)
        else:
            draft.lacks("overlap of tensor-parallel communication without compile")
    to.set("parallelism.pipeline_parallel_degree", plan.pp)
    if plan.pp > 1:
        name, exact = _schedule(prepared)
        to.set("parallelism.pipeline_parallel_schedule", name)
        if not exact:
            draft.lacks(f"schedule {plan.schedule}: {name} will run")
        to.set("parallelism.pipeline_parallel_microbatch_size", plan.mbs)
        to.set("parallelism.module_fqns_per_model_part", stage_modules(plan.stage_layers, to.last_module))
        draft.notes.append("a pipeline runs the whole step: local_batch_size holds all micro-batches of a replica")
    to.set("parallelism.context_parallel_degree", plan.cp)
    if plan.cp > 1:
        method = {"ring": "alltoall", "all_gather": "allgather"}.get(plan.cp_kind)
        if method is None:
            draft.lacks(f"context parallelism by {plan.cp_kind}: keys and values pass round the ring")
        to.set("parallelism.context_parallel_rotate_method", method or "alltoall")
    if prepared.model.num_experts:
        to.set("parallelism.expert_parallel_degree", plan.ep)
        to.set("parallelism.expert_tensor_parallel_degree", plan.etp if plan.ep > 1 else 1)
        backend = plan.dispatcher if plan.dispatcher in ("deepep", "hybridep") else "standard"
        if backend == "hybridep" and not isinstance(to, PythonConfig):
            backend = "standard"
        to.set("parallelism.expert_parallel_comm_backend", backend)
        if plan.dispatcher not in ("alltoall", backend) and plan.ep > 1:
            draft.lacks(f"expert dispatch by {plan.dispatcher}: all-to-all is used")
        if plan.overlap_moe_a2a and plan.ep > 1:
            draft.lacks("expert all-to-all during computation: only DualPipeV overlaps it")
    for given, what in (
        (replicate * shard * plan.cp > 1 and not plan.overlap_grad_reduce, "gradients reduced without overlap"),
        (plan.zero in (1, 2) and not plan.overlap_param_gather, "parameters gathered without overlap"),
        (plan.zero == 3 and not plan.fsdp_prefetch, "overlap.fsdp_prefetch false: FSDP prefetches"),
        (plan.pp > 1 and not plan.overlap_p2p, "overlap.p2p false: pipelines send during computation"),
    ):
        if given:
            draft.lacks(what)
    used = [axis for axis in plan.order if axis != "ep" and getattr(plan, axis) > 1]
    if used != [axis for axis in ("tp", "cp", "dp", "pp") if axis in used]:
        draft.lacks(f"rank order {'-'.join(plan.order)}: ranks will be laid out tp-cp-dp-pp")


def stage_modules(layers: tuple[int, ...], last: str = "output") -> list[list[str]]:
    """Names of the modules of each virtual stage in depth order, embedding first and head last."""
    stages, first = [], 0
    for count in layers:
        stages.append([f"layers.{i}" for i in range(first, first + count)])
        first += count
    stages[0].insert(0, "tok_embeddings")
    stages[-1] += ["norm", last]
    return stages


def _memory(prepared: PreparedStep, to: TomlConfig) -> None:
    plan, draft = prepared.plan, to.draft
    how = draft.recompute(plan)
    depth, rest = divmod(sum(plan.stage_layers), plan.pp)
    mode = {"none": "none", "full": "full"}.get(how.policy, "none")
    if how.policy == "modules":
        if "per_op" in how.modules:
            mode = "selective"
            to.set("activation_checkpoint.selective_ac_option", "op")
        for module in how.modules:
            if module != "per_op":
                draft.lacks(f"recompute of {module}: torchtitan recomputes whole layers or per operator")
    elif how.policy == "full" and how.num_layers is not None and how.num_layers < depth:
        if how.num_layers and not rest and depth % how.num_layers == 0:
            mode = "selective"
            to.set("activation_checkpoint.selective_ac_option", str(depth // how.num_layers))
        elif how.num_layers:
            draft.lacks(f"recompute.num_layers {how.num_layers} of {depth}: only every n-th layer; all recompute")
        else:
            mode = "none"
    to.set("activation_checkpoint.mode", mode)
    early = prepared.behaviour.early_stop if how.early_stop is None else how.early_stop
    if mode != "none":
        to.set("activation_checkpoint.early_stop", early)
    offload = plan.offload
    tiers = {offload.tier_of(name) for name in ("params", "optimizer")}
    if offload.params == 1.0 and offload.optimizer == 1.0 and tiers == {"host"}:
        to.set("training.enable_cpu_offload", True)
    else:
        for what in ("params", "optimizer"):
            if getattr(offload, what):
                draft.lacks(f"offload of {getattr(offload, what):g} of {what}: all of both to host memory, or none")
    if offload.gradients:
        draft.lacks(f"offload of {offload.gradients:g} of the gradients")
    if offload.activations:
        draft.lacks(f"offload of {offload.activations:g} of the activations")


TARGETS.add("torchtitan", LaunchTarget("torchtitan", "torchtitan", check, write))
