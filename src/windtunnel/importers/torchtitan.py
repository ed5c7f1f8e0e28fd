"""A torchtitan TOML file as a scenario.

Names and defaults: pytorch/torchtitan `torchtitan/config/job_config.py`, the releases configured by TOML (to 0.2).
Flavors and the settings without a field are data, `flags/torchtitan.yaml`. What a file leaves out has torchtitan's
default.
"""

from __future__ import annotations

import itertools
from typing import Any

from windtunnel.files.parsing import toml_of, whole_number
from windtunnel.importers import torchtitan_command
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings, flatten, options, toml_lines
from windtunnel.importers.torchtitan_python import looks_like_one, read_python

FORMAT = "torchtitan"
TITLE = "torchtitan TOML"
DEFAULT = "torchtitan's default"
SCHEDULES = {
    "1F1B": "1f1b",
    "GPipe": "gpipe",
    "Interleaved1F1B": "interleaved_1f1b",
    "LoopedBFS": "breadth_first",
    "ZBVZeroBubble": "zb_v",
    "InterleavedZeroBubble": "",
    "DualPipeV": "dualpipev",
}
SINGLE = ("1f1b", "gpipe")
OPTIMIZERS = {"Adam": "adam", "AdamW": "adam", "SGD": "sgd", "Muon": "muon"}
FLOAT8 = ("float8", "quantize.dense.float8", "quantize.linear.float8")
RECIPES = {"tensorwise": "fp8", "rowwise": "fp8_rowwise", "rowwise_with_gw_hp": "fp8_rowwise"}
MIXED = {"bfloat16": "bf16", "float32": "fp32"}


def detect(text: str) -> bool:
    """Whether a text is a torchtitan configuration."""
    try:
        data = toml_of(text)
    except ValueError:
        return looks_like_one(text) or torchtitan_command.starts(text)
    return "training" in data and ("parallelism" in data or "flavor" in str(data.get("model")))


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    python = looks_like_one(text)
    if not python and torchtitan_command.starts(text):
        found = torchtitan_command.read_command(text, launch, wanted)
        if found is None or launch.problems:
            return launch
        settings = Settings(launch, *found)
    elif python:
        launch.title = "torchtitan Python configuration"
        settings = Settings(launch, *read_python(text, launch, wanted, options(FORMAT)["models"]))
        if not settings.values:
            launch.cluster(wanted, None, None)
            return launch
    else:
        try:
            data = toml_of(text)
        except ValueError as error:
            launch.wrong("", f"is not TOML: {error}")
            return launch
        settings = Settings(launch, flatten(data), toml_lines(text))
    fields = launch.fields
    devices = launch.cluster(wanted, None, None) if "cluster.nodes" not in fields else None
    if devices is None and "cluster.nodes" in fields:
        devices = int(fields["cluster.nodes"]) * int(fields["cluster.devices_per_node"])
    _model(launch, settings, wanted)
    _training(launch, settings, wanted)
    _plan(launch, settings, wanted, devices)
    if python and not settings.switch("training.disable_cuda_graphs") and launch.fields.get("plan.pp", 1) == 1:
        launch.set("training.cuda_graphs", "full", f"no training.disable_cuda_graphs: {DEFAULT} from 0.3")
    settings.rest()
    return launch


def _model(launch: Launch, s: Settings, wanted: Wanted) -> None:
    name, flavor = s.get("model.name"), s.get("model.flavor")
    line = s.line("model.flavor") or s.line("model.name")
    if wanted.model is not None:
        launch.named_model(wanted.model, "--model of windtunnel import")
        return
    flavors: dict[str, str] = options(FORMAT)["models"].get(str(name or "llama3"), {})
    entry = {str(key).casefold(): value for key, value in flavors.items()}.get(str(flavor).casefold())
    if entry is None:
        some = f"known of {name} are {', '.join(map(str, flavors))}" if flavors else f"no flavors of {name} are known"
        rule = f"has no catalogue entry ({some}); --model names one"
        launch.wrong("model.flavor", rule, flavor or "debugmodel", line)
    else:
        launch.named_model(entry, f"model.name = {name or 'llama3'}, model.flavor = {flavor}", line)


def _training(launch: Launch, s: Settings, wanted: Wanted) -> None:
    given = s.number("training.seq_len")
    if wanted.seq_len is not None:
        launch.set("training.seq_len", wanted.seq_len, "--seq-len of windtunnel import")
    elif given is not None:
        s.put("training.seq_len", given, "training.seq_len")
    elif "training.seq_len" not in s.values:
        launch.assume("training.seq_len", 2048, DEFAULT)
    param = s.choice(MIXED, "training.mixed_precision_param")
    launch.set("training.precision", param or "bf16", *s.said("training.mixed_precision_param"))
    if param is None:
        launch.origin["training.precision"] = (DEFAULT, None)
    _quantised(launch, s)
    launch.set("training.framework", wanted.framework or "torchtitan", "the format of the file")
    optimizer = s.choice(OPTIMIZERS, "optimizer.name")
    if optimizer is not None:
        s.put("training.optimizer", optimizer, "optimizer.name")
    if s.get("optimizer.implementation") not in (None, "fused"):
        s.leave("a scenario has one optimizer kernel", "optimizer.implementation")
    if s.switch("optimizer.early_step_in_backward"):
        s.put("training.optimizer_in_backward", True, "optimizer.early_step_in_backward")
    reduced = s.choice(MIXED, "training.mixed_precision_reduce")
    if reduced is not None:
        s.put("training.grad_reduce_precision", reduced, "training.mixed_precision_reduce")
    compiled = s.switch("compile.enable", "training.compile")
    parts = s.get("compile.components")
    if compiled and isinstance(parts, list) and "model" not in parts:
        s.leave("a scenario compiles the model or nothing", "compile.components")
        compiled = False
    s.put("training.compile", bool(compiled), "compile.enable", "training.compile")
    if compiled is None:
        launch.origin["training.compile"] = (f"{DEFAULT}: not compiled", None)


def _quantised(launch: Launch, s: Settings) -> None:
    """Low precision is on when the model's converters name it."""
    kinds = [str(kind) for kind in s.items("model.converters") or []]
    for table in FLOAT8:
        recipe = s.choice(RECIPES, f"{table}.recipe_name")
        gather = s.switch(f"{table}.enable_fsdp_float8_all_gather")
        if table not in kinds:
            continue
        kinds.remove(table)
        s.put("training.precision", recipe or "fp8", f"{table}.recipe_name", "model.converters")
        if gather:
            s.put("training.float8_all_gather", True, f"{table}.enable_fsdp_float8_all_gather")
    for table in ("mx", "quantize.linear.mx"):
        s.get(f"{table}.recipe_name")
        if table in kinds:
            kinds.remove(table)
            s.put("training.precision", "mxfp8", "model.converters")
    for kind in filter(None, kinds):
        launch.leave("model.converters", kind, s.line("model.converters"), "no field in a scenario")


def _plan(launch: Launch, s: Settings, wanted: Wanted, devices: int | None) -> None:
    p = "parallelism."
    tp = s.take("plan.tp", p + "tensor_parallel_degree", "training.tensor_parallel_degree") or 1
    asynchronous = s.switch(p + "enable_async_tensor_parallel", "experimental.enable_async_tensor_parallel")
    if tp > 1:
        on = bool(asynchronous) and launch.fields.get("training.compile") is True
        s.put("plan.overlap.tp", on, p + "enable_async_tensor_parallel")
        if asynchronous and not on:
            s.leave("has no effect without compile", p + "enable_async_tensor_parallel")
        sequence = s.switch(p + "enable_sequence_parallel")
        if sequence is not None:
            s.put("plan.sp", sequence, p + "enable_sequence_parallel")
    pp = s.take("plan.pp", p + "pipeline_parallel_degree", "experimental.pipeline_parallel_degree") or 1
    cp = s.take("plan.cp", p + "context_parallel_degree", "experimental.context_parallel_degree") or 1
    rotate = s.choice({"allgather": "all_gather", "alltoall": "ring"}, p + "context_parallel_rotate_method")
    if cp > 1:
        s.put("plan.cp_kind", rotate or "all_gather", p + "context_parallel_rotate_method")
        if rotate is None:
            launch.origin["plan.cp_kind"] = (f"{DEFAULT}: allgather", None)
    exchange = {"standard": "alltoall", "deepep": "deepep", "hybridep": "hybridep"}
    backend = s.choice(exchange, p + "expert_parallel_comm_backend")
    if backend is not None:
        s.put("training.moe_dispatcher", backend, p + "expert_parallel_comm_backend")
    ep, etp = s.number(p + "expert_parallel_degree"), s.number(p + "expert_tensor_parallel_degree")
    if ep is not None and ep > 1:
        s.put("plan.ep", ep, p + "expert_parallel_degree")
        if etp is not None and etp > 1:
            s.put("plan.etp", etp, p + "expert_tensor_parallel_degree")
    _data_parallel(launch, s, devices, tp * pp * cp, cp)
    mbs = _batch(launch, s, wanted, devices, tp * pp * cp, pp)
    if mbs is not None:
        launch.set("plan.mbs", *mbs)
    launch.check_batch(devices, tp * pp * cp)
    _pipeline(launch, s, pp)
    if s.switch("training.enable_cpu_offload"):
        for part in ("optimizer", "params"):
            s.put(f"plan.offload.{part}", 1.0, "training.enable_cpu_offload")
    _recompute(launch, s, pp)


def _data_parallel(launch: Launch, s: Settings, devices: int | None, inner: int, cp: int) -> None:
    names = ("parallelism.data_parallel_shard_degree", "training.data_parallel_shard_degree")
    shard = s.number(*names, least=-1)
    copies = s.number("parallelism.data_parallel_replicate_degree", "training.data_parallel_replicate_degree") or 1
    launch.set("plan.dp", "auto", "devices / (tp · pp · cp)")
    if devices is None or devices % inner:
        dp = None
    else:
        dp = devices // inner
    if shard in (None, -1):
        if dp is not None and dp % copies:
            rule = f"must divide the {dp} data-parallel ranks"
            launch.wrong(
                "parallelism.data_parallel_replicate_degree",
                rule,
                copies,
                s.line("parallelism.data_parallel_replicate_degree"),
            )
        shard = dp // copies if dp is not None else -1
    elif dp is not None and shard * copies != dp:
        rule = f"times {copies} replicas must equal devices / (tp · pp · cp) = {dp}"
        launch.wrong(names[0], rule, shard, s.line(names[0]))
    sharded = shard * cp > 1 or shard == -1
    s.put("plan.zero", 3 if sharded else 0, *names)
    if sharded and copies > 1 and shard > 0:
        s.put("plan.shard_group", shard * cp, *names)
    again = s.choice({"default": None, "always": True, "never": False}, "parallelism.fsdp_reshard_after_forward")
    if again is not None:
        s.put("plan.reshard_after_forward", again, "parallelism.fsdp_reshard_after_forward")


def _batch(
    launch: Launch, s: Settings, wanted: Wanted, devices: int | None, inner: int, pp: int
) -> tuple[int, str, int | None] | None:
    """Fill in the batch; returns the micro-batch with what states it."""
    names = ("training.local_batch_size", "training.batch_size")
    local = s.number(*names)
    if local is None and not any(name in s.values for name in names):
        local = 8
        launch.assumed.append(("training.local_batch_size", "8", DEFAULT))
    whole = s.number("training.global_batch_size", least=-1)
    small = s.number("parallelism.pipeline_parallel_microbatch_size")
    if wanted.global_batch is not None:
        launch.set("training.global_batch", wanted.global_batch, "--global-batch of windtunnel import")
    elif whole is not None and whole > 0:
        s.put("training.global_batch", whole, "training.global_batch_size")
        if pp > 1 and local and devices and whole > local * (devices // inner):
            s.leave(
                "gradients accumulate over several runs of the pipeline; a scenario runs it once",
                "training.global_batch_size",
            )
    elif local and devices and devices % inner == 0:
        dp = devices // inner
        launch.set("training.global_batch", local * dp, f"{s.said(*names)[0]} {local} · dp {dp}", s.said(*names)[1])
    if wanted.mbs is not None:
        return wanted.mbs, "--mbs of windtunnel import", None
    if local is None:
        return None
    if pp == 1:
        return (local, *s.said(*names))
    return (small or 1, *s.said("parallelism.pipeline_parallel_microbatch_size"))


def _pipeline(launch: Launch, s: Settings, pp: int) -> None:
    p = "parallelism.pipeline_parallel_"
    name = p + "schedule"
    schedule = s.choice(SCHEDULES, name, "experimental.pipeline_parallel_schedule")
    layers = s.number(p + "layers_per_stage")
    points = s.items(p + "split_points", "experimental.pipeline_parallel_split_points")
    ends = [s.number(f"{p}{end}_stage_less_layers", least=0) for end in ("first", "last")]
    parts = s.items("parallelism.module_fqns_per_model_part")
    if pp == 1:
        return
    if schedule == "":
        s.leave("no such schedule here; interleaved_1f1b stands in", name)
        schedule = "interleaved_1f1b"
        launch.assumed.append(("plan.schedule", schedule, f"stands in for {s.values[name]}"))
    for end, count in zip(("embedding", "loss"), ends, strict=True):
        which = "first" if end == "embedding" else "last"
        if count is not None and count <= 1:
            s.put(f"plan.{end}_as_layer", bool(count), f"{p}{which}_stage_less_layers")
        elif count is not None:
            s.leave("a scenario takes one layer off the end at most", f"{p}{which}_stage_less_layers")
    depth = _depth(launch)
    named = [whole_number(str(point).rsplit(".", 1)[-1]) for point in points or []]
    starts = [number for number in named if number is not None]
    where = name
    stages = pp * (1 if (schedule or "1f1b") in SINGLE else 2)
    if depth and points and len(starts) == len(points):
        stages = len(starts) + 1
        edges = [0, *starts, depth]
        s.put("plan.stage_layers", [b - a for a, b in itertools.pairwise(edges)], p + "split_points")
    elif depth and parts:
        where = "parallelism.module_fqns_per_model_part"
        stages = len(parts)
        counts = [
            sum(str(name).startswith("layers.") for name in (part if isinstance(part, list) else [])) for part in parts
        ]
        if sum(counts) != depth:
            launch.wrong(where, f"must hold each of the {depth} layers once, has {sum(counts)}", line=s.line(where))
        s.put("plan.stage_layers", counts, where)
    elif depth and layers is not None:
        extra = sum(1 if count is None else count for count in ends)
        stages = -(-(depth + extra) // layers)
    if not parts:
        where = p + ("split_points" if points else "layers_per_stage" if layers else "schedule")
    if stages % pp:
        launch.wrong(where, f"makes {stages} stages, which pp {pp} must divide", line=s.line(where))
        return
    s.put("plan.schedule", schedule or "1f1b", name)
    if stages > pp:
        s.put("plan.vpp", stages // pp, where)


def _recompute(launch: Launch, s: Settings, pp: int) -> None:
    mode = s.get("activation_checkpoint.mode")
    option = str(s.get("activation_checkpoint.selective_ac_option", "activation_checkpoint.selective_ac_type") or "2")
    where = "activation_checkpoint.mode"
    policy: dict[str, Any]
    if mode is None:
        launch.assumed.append((where, "selective", DEFAULT))
        mode = "selective"
    if mode in ("none", "full"):
        policy = {"policy": mode}
    elif mode == "selective" and option == "op":
        policy, where = {"policy": "modules", "modules": ["per_op"]}, "activation_checkpoint.selective_ac_option"
    elif mode == "selective" and (every := whole_number(option) or 0) > 0:
        depth = _depth(launch)
        policy = {"policy": "full"}
        if every > 1 and depth:
            policy["num_layers"] = max(depth // pp // every, 1)
        where = "activation_checkpoint.selective_ac_option"
    else:
        rule = "must be none, full, or selective with selective_ac_option op or a number"
        launch.wrong(where, rule, mode, s.line(where))
        return
    early = s.switch("activation_checkpoint.early_stop")
    if early is False and mode != "none":  # true is what the framework's checkpoints do by themselves
        s.put("plan.recompute.early_stop", early, "activation_checkpoint.early_stop")
    for key, value in policy.items():
        s.put(f"plan.recompute.{key}", value, where, "activation_checkpoint.mode")


def _depth(launch: Launch) -> int | None:
    from windtunnel import catalog

    return catalog.model(launch.fields["model"]).num_hidden_layers if "model" in launch.fields else None
