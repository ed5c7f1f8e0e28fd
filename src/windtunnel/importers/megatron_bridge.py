"""Settings of Megatron-Bridge (a recipe or overrides in Python, YAML, a command line with overrides) as a scenario.

What a file does not set is the recipe's, which is not in the file: the stack's own defaults stand for it, and the
result says so. Sources: fields and what they mean, Megatron-Bridge 0.6.2 (`models/`, `training/config.py`,
`training/comm_overlap.py`); fields without a scenario's are data, `flags/megatron_bridge.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windtunnel import catalog
from windtunnel.errors import nearest_name
from windtunnel.files.parsing import whole_number
from windtunnel.importers import bridge_settings
from windtunnel.importers.bridge_recipes import RecipeLine, launches_recipe, read_line
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.megatron_plan import ATTENTION, CP_KINDS, GRAPHS, MODULES, OPTIMIZERS, SHARDING, layout_counts
from windtunnel.importers.settings import Settings
from windtunnel.importers.switches import read_switches
from windtunnel.specs.number_formats import MATRIX_FORMAT, trained_formats
from windtunnel.stacks.recipes import Recipe, recipe_names
from windtunnel.stacks.stack_files import datasets

FORMAT = "megatron_bridge"
TITLE = "Megatron-Bridge configuration"
PRECISION = (
    ("nvfp4", "nvfp4"),
    ("mxfp8", "mxfp8"),
    ("subchannel", "fp8_block"),
    ("fp8", "fp8"),
    ("fp16", "fp16"),
    ("bf16", "bf16"),
)
"""Part of a precision recipe's name → precision; the first that fits."""
DIMENSIONS = {
    "model.num_layers": "num_hidden_layers",
    "model.hidden_size": "hidden_size",
    "model.num_attention_heads": "num_attention_heads",
    "model.num_query_groups": "kv_heads",
    "model.ffn_hidden_size": "intermediate_size",
    "model.num_moe_experts": "num_experts",
    "model.vocab_size": "vocab_size",
    "model.moe_router_topk": "num_experts_per_tok",
    "model.moe_ffn_hidden_size": "moe_intermediate_size",
}
SWITCHED_OFF: dict[str, tuple[str, Any]] = {
    "model.recompute_granularity": ("plan.recompute", {"policy": "none"}),
    "model.virtual_pipeline_model_parallel_size": ("plan.vpp", 1),
    "model.moe_flex_dispatcher_backend": ("training.moe_dispatcher", "alltoall"),
}
"""Setting that a line may set to nothing → field and value that this is."""
_JOB = ("SLURM_NNODES", "SLURM_GPUS_PER_NODE")
"""Variables of the size of a Slurm job."""
KEPT = "not set here: the recipe's, taken as the stack's default"


def detect(text: str) -> bool:
    """Whether a text sets a Megatron-Bridge configuration, or launches one of its recipes."""
    return launches_recipe(text) or bridge_settings.kind(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    if launches_recipe(text):
        return read_recipe(text, file, wanted)
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    kind = bridge_settings.kind(text)
    if kind == "yaml":
        found = bridge_settings.from_yaml(text)
    elif kind == "command":
        found = bridge_settings.from_command(text, launch, wanted)
    else:
        found = bridge_settings.from_python(text, launch, wanted)
    s = Settings(launch, *found)
    if not s.values:
        if launch.problems:
            launch.cluster(wanted, None, None)
        else:
            launch.wrong("", "sets nothing of a Megatron-Bridge configuration")
        return launch
    sizes = {name: s.get(f"({name})") for name in ("nnodes", "nproc-per-node")}
    nodes, per_node = [(size, f"--{name}", None) if size else None for name, size in sizes.items()]
    devices = launch.cluster(wanted, nodes, per_node)
    _model(launch, s, wanted)
    _capacity(launch, s)
    _work(launch, s, wanted)
    inner = _settings(launch, s, devices)
    mbs = wanted.mbs or s.number("train.micro_batch_size")
    if mbs is None:
        launch.assume("plan.mbs", 1, "no train.micro_batch_size; --mbs of windtunnel import says otherwise")
    else:
        s.put("plan.mbs", mbs, "train.micro_batch_size")
    launch.check_batch(devices, inner)
    s.rest()
    return launch


def read_recipe(text: str, file: str, wanted: Wanted, version: str = "") -> Launch:
    """Read a line that launches a recipe: its name, its cluster and what it overrides.

    Args:
        text: shell text.
        file: name of the file, for problems.
        wanted: what the caller says next to the file.
        version: release, date or commit; empty: that of the container in the text, else the newest.
    """
    launch = Launch(format=FORMAT, title="launch of a Megatron-Bridge recipe", file=file)
    line = read_line(text, wanted.env)
    for what, at, why in line.notes:
        launch.leave(what, "", at, why)
    name, recipe = line.recipe(version)
    if line.unknown and "overrides" not in wanted.without:
        rule = "has overrides that a command inside the script makes; --without overrides goes on without them"
        launch.wrong("--recipe", rule, name, line.unknown)
    if unset := re.search(r"\$\{?(\w+)", name):
        rule = f"is not known without running the script; --env {unset[1]}=… sets it"
        launch.wrong("--recipe", rule, name, line.lines.get("recipe"))
        return launch
    if recipe is None:
        near = nearest_name(name, recipe_names("megatron_bridge"))
        launch.wrong("--recipe", "is no recipe of Megatron-Bridge that is known", name, nearest=near)
        return launch
    launch.sizes = {axis: size for axis, size in recipe.plan.items() if isinstance(size, int)}
    launch.set("training.framework", "megatron_bridge", "the launcher")
    if version or line.version:
        launch.set("training.framework_version", version or line.version, "the container")
    launch.set("training.recipe", recipe.name, "the launcher's options", line.lines.get("recipe"))
    devices = _recipe_cluster(launch, line, recipe, wanted)
    if wanted.model is not None:
        launch.named_model(wanted.model, "--model of windtunnel import")
    elif not recipe.model:
        launch.wrong("--model", "is required: the recipe's model is not in the catalogue")
    s = Settings(launch, {name: value for name, value in line.overrides.items() if value is not None}, line.lines)
    for path, own, names in (
        ("training.seq_len", wanted.seq_len, ("model.seq_length", "dataset.seq_length", "dataset.sequence_length")),
        ("training.global_batch", wanted.global_batch, ("train.global_batch_size",)),
        ("plan.mbs", wanted.mbs, ("train.micro_batch_size",)),
    ):
        s.take(path, *names)
        if own is not None:
            launch.set(path, own, "option of windtunnel import")
    if rank := s.number("peft.dim"):
        s.put("training.lora.rank", rank, "peft.dim")
    _settings(launch, s, devices)
    _documents(launch, s, line, recipe)
    launch.fields.pop("plan.dp")
    for name, (path, value) in SWITCHED_OFF.items():
        if name in line.overrides and line.overrides[name] is None:
            launch.set(path, value, name, line.lines.get(name))
    s.rest()
    return launch


def _documents(launch: Launch, s: Settings, line: RecipeLine, recipe: Recipe) -> None:
    """Lengths of the documents that fine-tuning packs into rows, where the data set is one that is known by name.

    Recipes of the library pack SQuAD unless they are told otherwise (`recipes/common.py` -> `_sft_common`).
    """
    if recipe.training.get("phase") not in ("sft", "lora") or "src/megatron/bridge/recipes/" not in recipe.source:
        return
    named = line.overrides.get("dataset.source.dataset_name", line.options.get("dataset", "squad"))
    found = datasets().get(str(named))
    packs = s.switch("dataset.enable_offline_packing", "dataset.enable_in_batch_packing")
    seq_len = launch.fields.get("training.seq_len", recipe.training.get("seq_len", 0))
    if found and packs is not False and found["mean_document_length"] < seq_len:
        launch.assume(
            "training.mean_document_length", found["mean_document_length"], f"the data set's card, {found['source']}"
        )


def _recipe_cluster(launch: Launch, line: RecipeLine, recipe: Recipe, wanted: Wanted) -> int | None:
    """The devices that a line asks for, else those that the recipe was made for; returns their number."""
    said = replace(wanted, device=wanted.device or recipe.device or None)
    own = line.number("gpus_per_node", "nproc_per_node")
    job = [whole_number(wanted.env.get(name, "")) for name in _JOB]
    per_node = own or job[1] or min(recipe.devices_per_node, recipe.devices or 8)
    total = line.number("num_gpus") or recipe.devices or None
    nodes = line.number("nodes", "nnodes") or job[0]
    if nodes is None and line.number("nproc_per_node"):
        nodes = 1  # torchrun's default
    nodes = nodes or (max(total // per_node, 1) if total else None)
    made = f"the recipe is for {recipe.devices} {recipe.device}" if not (own or any(job)) else "the launcher"
    devices = launch.cluster(said, (nodes, made, None) if nodes else None, (per_node, made, None))
    if wanted.device is None and "cluster.device" in launch.origin:
        launch.origin["cluster.device"] = made, None
        precision = recipe.training.get("precision")
        if precision in MATRIX_FORMAT and precision not in trained_formats(
            catalog.device(recipe.device).peak_flop_per_s
        ):
            rule = f"is required: the recipe trains in {precision}, which {recipe.device} has no matrix units for"
            launch.wrong("--device", rule)
    return devices


def recipe_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted fields of a scenario that the settings of a recipe make; settings without a field are passed over.

    Args:
        values: dotted name of a setting → value; settings without a value are left out.
    """
    launch = Launch(format=FORMAT, title=TITLE, file="")
    s = Settings(launch, {name: value for name, value in values.items() if value is not None}, {})
    for path, names in {
        "training.seq_len": ("model.seq_length", "dataset.seq_length", "dataset.sequence_length"),
        "training.global_batch": ("train.global_batch_size",),
        "plan.mbs": ("train.micro_batch_size",),
    }.items():
        s.take(path, *names)
    _settings(launch, s, None)
    launch.fields.pop("plan.dp")
    return launch.fields


def _settings(launch: Launch, s: Settings, devices: int | None) -> int:
    """What a step depends on other than its model, its cluster and its work; returns tp · pp · cp."""
    _training(launch, s)
    inner = _axes(launch, s)
    _sharding(launch, s, devices, inner)
    _overlap(launch, s)
    read_switches("megatron_bridge", s.take)
    _memory(launch, s)
    return inner


def _model(launch: Launch, s: Settings, wanted: Wanted) -> None:
    """By name, or the one catalogue model with the sizes that the file sets."""
    from windtunnel import catalog

    given = {field: s.get(name) for name, field in DIMENSIONS.items() if s.get(name) is not None}
    named = s.get("(model)")
    if wanted.model is not None:
        launch.named_model(wanted.model, "--model of windtunnel import")
        return
    if named is not None:
        launch.named_checkpoint(str(named), "AutoBridge.from_hf_pretrained", s.line("(model)"))
        return
    same = [
        model.name
        for model in map(catalog.model, catalog.models())
        if len(given) >= 4 and all(getattr(model, field) == value for field, value in given.items())
    ]
    if same:
        others = f" (as have {', '.join(same[1:])})" if same[1:] else ""
        launch.set("model", same[0], f"has the sizes that the file sets{others}", s.line("model.num_layers"))
        if others:
            launch.assumed.append(("model", same[0], f"the file sets sizes alone, which fit{others}; --model decides"))
    else:
        launch.wrong("--model", "is required: the file names no model, and its sizes fit no catalogue entry")


def _capacity(launch: Launch, s: Settings) -> None:
    """The rows that an expert takes: the catalogue's model is then spelled out, since no entry of it has a capacity."""
    from windtunnel import catalog

    names = "model.moe_expert_capacity_factor", "model.moe_pad_expert_input_to_capacity"
    factor, padded = s.get(names[0]), s.switch(names[1])
    if factor is None:
        return
    if isinstance(factor, bool) or not isinstance(factor, int | float):
        launch.wrong(names[0], "must be a number", factor, s.line(names[0]))
        return
    if factor <= 0 or launch.problems:  # Megatron-Core: a negative factor drops nothing
        return
    if "model" in launch.fields:
        named = launch.fields.pop("model")
        said = launch.origin.pop("model", (named, None))
        spec = catalog.model(named)
        spelled = spec.model_dump(mode="json", exclude_defaults=True, exclude={"provenance"})
        for field, value in (spelled | {"name": spec.name, "family": spec.family}).items():
            launch.set(f"model.{field}", value, *said)
    s.put("model.capacity_factor", float(factor), names[0])
    s.put("model.moe_pad_expert_input_to_capacity", bool(padded), names[1] if padded is not None else names[0])


def _work(launch: Launch, s: Settings, wanted: Wanted) -> None:
    names = ("model.seq_length", "dataset.seq_length", "dataset.sequence_length")
    seq_len = s.number(*names)
    if wanted.seq_len is not None:
        launch.set("training.seq_len", wanted.seq_len, "--seq-len of windtunnel import")
    elif seq_len is not None:
        s.put("training.seq_len", seq_len, *names)
    else:
        launch.wrong("model.seq_length", "is not in the file (it is the recipe's); --seq-len gives it")
    batch = s.number("train.global_batch_size")
    if wanted.global_batch is not None:
        launch.set("training.global_batch", wanted.global_batch, "--global-batch of windtunnel import")
    elif batch is not None:
        s.put("training.global_batch", batch, "train.global_batch_size")
    else:
        launch.wrong("train.global_batch_size", "is not in the file (it is the recipe's); --global-batch gives it")
    if any(name.startswith("peft.") for name in s.values):
        launch.set("training.phase", "lora", *s.said("peft.dim", "peft.peft_scheme"))
        s.take("training.lora.rank", "peft.dim")
    if s.get("mixed_precision") is None:
        launch.assume("training.precision", "bf16", f"mixed_precision {KEPT}")
    launch.set("training.framework", wanted.framework or "megatron_bridge", "the format of the file")


def _training(launch: Launch, s: Settings) -> None:
    recipe = s.get("mixed_precision")
    precision = next((kind for part, kind in PRECISION if part in str(recipe)), None)
    if recipe is not None and precision is None:
        launch.wrong("mixed_precision", "names no precision that is known", recipe, s.line("mixed_precision"))
    elif precision is not None:
        s.put("training.precision", precision, "mixed_precision")
    reduced = s.switch("mixed_precision.grad_reduce_in_fp32", "ddp.grad_reduce_in_fp32")
    if reduced is not None:
        name = "mixed_precision.grad_reduce_in_fp32", "ddp.grad_reduce_in_fp32"
        s.put("training.grad_reduce_precision", "fp32" if reduced else "bf16", *name)
    optimizer = s.choice(OPTIMIZERS | {"sgd": "sgd"}, "optimizer.optimizer")
    if optimizer is not None:
        s.put("training.optimizer", optimizer, "optimizer.optimizer")
    backend = s.choice(ATTENTION, "model.attention_backend")
    if backend not in (None, "auto"):
        s.put("training.attention", backend, "model.attention_backend")
    fused = s.switch("model.cross_entropy_loss_fusion")
    if fused is not None:
        s.put("training.fused_cross_entropy", fused, "model.cross_entropy_loss_fusion")
    _graphs(s)
    dispatcher = s.get("model.moe_token_dispatcher_type")
    backend = s.get("model.moe_flex_dispatcher_backend")
    if dispatcher is not None or backend is not None:
        kind = (backend or "deepep") if dispatcher in ("flex", None) else dispatcher
        s.put("training.moe_dispatcher", kind, "model.moe_token_dispatcher_type", "model.moe_flex_dispatcher_backend")
    fused = s.switch("model.use_transformer_engine_op_fuser")
    if fused is not None:
        s.put("training.fused_experts", fused, "model.use_transformer_engine_op_fuser")
    rope = s.switch("model.apply_rope_fusion")
    if rope is not None:
        s.put("training.fused_rope", rope, "model.apply_rope_fusion")
    permute = s.switch("model.moe_permute_fusion")
    if permute is not None:
        s.put("training.fused_permute", permute, "model.moe_permute_fusion")


def _graphs(s: Settings) -> None:
    impl, names = s.get("model.cuda_graph_impl"), ("model.cuda_graph_modules", "model.cuda_graph_scope")
    scope = sorted(map(str, s.items(*names) or []))
    if impl is None:
        return
    if impl == "none":
        s.put("training.cuda_graphs", "none", "model.cuda_graph_impl")
        return
    kind = "full" if impl == "full_iteration" else GRAPHS.get(" ".join(scope)) if scope else "layer"
    if kind is None and {"attn", "mamba"} & {*scope} and len(scope) > 1:
        kind = "layer"  # mixers together with routers or dense networks: what is left out is the experts themselves
    if kind is None:
        s.leave("a scenario captures attention, moe, layer or full", *names)
    else:
        s.put("training.cuda_graphs", kind, "model.cuda_graph_impl")


def _axes(launch: Launch, s: Settings) -> int:
    """Axis sizes and stages; returns tp · pp · cp."""
    m = "model."
    tp = s.take("plan.tp", f"{m}tensor_model_parallel_size") or launch.size("tp")
    sp = s.switch(f"{m}sequence_parallel")
    if sp is not None and tp > 1:
        s.put("plan.sp", sp, f"{m}sequence_parallel")
    pp = s.take("plan.pp", f"{m}pipeline_model_parallel_size") or launch.size("pp")
    s.get(f"{m}pipeline_dtype")
    vpp = s.number(f"{m}virtual_pipeline_model_parallel_size")
    if vpp is not None and pp > 1:
        s.put("plan.vpp", vpp, f"{m}virtual_pipeline_model_parallel_size")
    layout = s.get(f"{m}pipeline_model_parallel_layout")
    if isinstance(layout, str):
        counts, line = layout_counts(layout), s.line(f"{m}pipeline_model_parallel_layout")
        if counts is None or len(counts) % pp:
            rule = f"must be stages of E, t, m and L between |, a multiple of pp = {pp}"
            launch.wrong(f"{m}pipeline_model_parallel_layout", rule, layout, line)
        else:
            s.put("plan.vpp", len(counts) // pp, f"{m}pipeline_model_parallel_layout")
            s.put("plan.stage_layers", counts, f"{m}pipeline_model_parallel_layout")
    elif layout is not None:
        s.leave("only layouts written as text are read", f"{m}pipeline_model_parallel_layout")
    for end in ("embedding", "loss"):
        if s.switch(f"{m}account_for_{end}_in_pipeline_split"):
            s.put(f"plan.{end}_as_layer", True, f"{m}account_for_{end}_in_pipeline_split")
    cp = s.take("plan.cp", f"{m}context_parallel_size") or launch.size("cp")
    kind = s.get(f"{m}cp_comm_type")
    sizes = s.items(f"{m}hierarchical_context_parallel_sizes")
    if cp > 1 and kind in CP_KINDS:
        s.put("plan.cp_kind", CP_KINDS[kind], f"{m}cp_comm_type")
        if kind == "a2a+p2p" and sizes:
            s.put("plan.cp_all_to_all", sizes[0], f"{m}hierarchical_context_parallel_sizes")
    elif cp > 1 and kind is not None:
        s.leave(f"must be one of {', '.join(CP_KINDS)}, the same for all layers", f"{m}cp_comm_type")
    ep, etp = s.number(f"{m}expert_model_parallel_size"), s.number(f"{m}expert_tensor_parallel_size")
    if ep is not None and (ep > 1 or launch.size("ep") > 1):
        s.put("plan.ep", ep, f"{m}expert_model_parallel_size")
    if etp is not None and (etp > 1 or launch.size("etp") > 1):
        s.put("plan.etp", etp, f"{m}expert_tensor_parallel_size")
    launch.set("plan.dp", "auto", "devices / (tp · pp · cp)")
    if s.switch("dist.use_tp_pp_dp_mapping"):
        s.put("plan.order", ["tp", "cp", "ep", "pp", "dp"], "dist.use_tp_pp_dp_mapping")
    return tp * pp * cp


def _sharding(launch: Launch, s: Settings, devices: int | None, inner: int) -> None:
    names = ("ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer")
    distributed = s.switch(*names)
    fsdp = s.switch("ddp.use_megatron_fsdp", "dist.use_megatron_fsdp")
    strategy = s.choice(SHARDING, "ddp.data_parallel_sharding_strategy")
    if fsdp:
        s.put("plan.zero", strategy or 0, "ddp.data_parallel_sharding_strategy")
        if strategy == SHARDING["optim_grads_params"]:
            launch.set("plan.reshard_after_forward", True, "Megatron-FSDP gathers again for backward")
    elif distributed is not None:
        s.put("plan.zero", int(distributed), *names)
    instances = s.number("ddp.num_distributed_optimizer_instances")
    ranks = devices // inner * launch.size("cp") if devices and devices % inner == 0 else None
    if instances is not None and instances > 1 and ranks:
        name = "ddp.num_distributed_optimizer_instances"
        if ranks % instances:
            launch.wrong(name, f"must divide dp · cp = {ranks}", instances, s.line(name))
        else:
            s.put("plan.shard_group", ranks // instances, name)


def _overlap(launch: Launch, s: Settings) -> None:
    for field, names in {
        "grad_reduce": ("comm_overlap.overlap_grad_reduce", "ddp.overlap_grad_reduce"),
        "param_gather": ("comm_overlap.overlap_param_gather", "ddp.overlap_param_gather"),
        "moe_a2a": ("comm_overlap.overlap_moe_expert_parallel_comm", "model.overlap_moe_expert_parallel_comm"),
    }.items():
        on = s.switch(*names)
        if on is not None:
            s.put(f"plan.overlap.{field}", on, *names)
    tensor = s.switch("comm_overlap.tp_comm_overlap", "model.tp_comm_overlap")
    if tensor and launch.size("tp") > 1:  # off: layers keep the overlap that needs no buffers
        s.put("plan.overlap.tp", True, "comm_overlap.tp_comm_overlap", "model.tp_comm_overlap")
    p2p = s.switch("comm_overlap.overlap_p2p_comm", "model.overlap_p2p_comm")
    if p2p is not None and launch.size("vpp") > 1:
        s.put("plan.overlap.p2p", p2p, "comm_overlap.overlap_p2p_comm", "model.overlap_p2p_comm")


def _memory(launch: Launch, s: Settings) -> None:
    granularity = s.get("model.recompute_granularity")
    method, layers = s.get("model.recompute_method"), s.number("model.recompute_num_layers")
    modules = s.items("model.recompute_modules")
    where = "model.recompute_granularity"
    if granularity == "full":
        s.put("plan.recompute.policy", "full", where)
        if method == "block" and layers is not None:
            count = layers * launch.size("vpp")
            s.put("plan.recompute.num_layers", count, "model.recompute_num_layers")
    elif granularity in ("selective", None) and modules:
        for module in modules:
            if module not in MODULES:
                why = f"no such module here; known are {', '.join(MODULES)}"
                launch.leave("model.recompute_modules", str(module), s.line("model.recompute_modules"), why)
        s.put("plan.recompute.policy", "modules", where)
        s.put("plan.recompute.modules", [MODULES[m] for m in modules if m in MODULES], "model.recompute_modules")
    elif granularity is not None:
        s.put("plan.recompute.policy", "selective", where)
    if s.switch("optimizer.optimizer_cpu_offload"):
        share: Any = s.get("optimizer.optimizer_offload_fraction")
        s.put("plan.offload.optimizer", 1.0 if share is None else float(share), "optimizer.optimizer_cpu_offload")
    whole = s.number("model.cpu_offloading_num_layers", least=0)
    depth = s.values.get("model.num_layers")
    taken = ", ".join(map(str, s.items("model.offload_modules") or []))
    if s.switch("model.cpu_offloading") and whole and depth:
        s.put("plan.offload.activations", min(whole / depth, 1.0), "model.cpu_offloading_num_layers")
    elif s.switch("model.fine_grained_activation_offloading"):
        part = s.get("model.activation_offload_fraction")
        s.put("plan.offload.activations", 1.0 if part is None else float(part), "model.offload_modules")
        why = f"stands for the inputs of {taken}: a scenario offloads layers whole"
        launch.assumed.append(("plan.offload.activations", "all a layer keeps", why))
