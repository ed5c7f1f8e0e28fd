"""A DeepSpeed JSON configuration as a scenario. The file knows neither model nor sequence length: options name them.

Names and defaults: deepspeedai/DeepSpeed `runtime/config.py`, `runtime/zero/config.py` and the page on its JSON. The
settings without a field are data, `flags/deepspeed.yaml`. `"auto"` is what the Hugging Face trainer fills in: a value
that decides time or memory must be written out or given as an option.
"""

from __future__ import annotations

from typing import Any

from windtunnel.files.parsing import json_of
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings, flatten, json_lines

FORMAT = "deepspeed"
TITLE = "DeepSpeed JSON"
DEFAULT = "DeepSpeed's default"
SIGNS = ("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "gradient_accumulation_steps")
OPTIMIZERS = {
    "Adam": "adam",
    "AdamW": "adam",
    "FusedAdam": "adam",
    "DeepSpeedCPUAdam": "adam",
    "Lion": "lion",
    "FusedLion": "lion",
    "SGD": "sgd",
    "Muon": "muon",
    "Adafactor": "adafactor",
}
TYPES = {"fp16": "fp16", "bf16": "bf16", "bfp16": "bf16", "fp32": "fp32"}
ZERO = "zero_optimization."
MODELLED = {
    "stage3_max_live_parameters": 1e9,
    "stage3_max_reuse_distance": 1e9,
    "sub_group_size": 1e9,
    "contiguous_gradients": True,
    "reduce_scatter": True,
    "allgather_partitions": True,
}
"""Settings of `zero_optimization` that the memory model and the costs take at this value alone: DeepSpeed's default."""


def detect(text: str) -> bool:
    """Whether a text is a DeepSpeed configuration."""
    try:
        data = json_of(text)
    except ValueError:
        return False
    return isinstance(data, dict) and any(sign in data for sign in SIGNS)


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    try:
        data = json_of(text)
    except ValueError as error:
        launch.wrong("", f"is not JSON: {error}")
        return launch
    if not isinstance(data, dict):
        launch.wrong("", "must hold a JSON object")
        return launch
    settings = Settings(launch, flatten(data), json_lines(text))
    devices = launch.cluster(wanted, None, None)
    if wanted.model is None:
        launch.wrong("--model", "is required: DeepSpeed's JSON does not name the model")
    else:
        launch.named_model(wanted.model, "--model of windtunnel import")
    if wanted.seq_len is None:
        launch.wrong("--seq-len", "is required: DeepSpeed's JSON does not hold the sequence length")
    else:
        launch.set("training.seq_len", wanted.seq_len, "--seq-len of windtunnel import")
    inner = _axes(launch, settings)
    _training(launch, settings, wanted)
    _zero(launch, settings)
    _batch(launch, settings, wanted, devices, inner)
    launch.check_batch(devices, inner)
    _recompute(launch, settings, data)
    settings.rest()
    return launch


def _axes(launch: Launch, s: Settings) -> int:
    """Tensor, pipeline, sequence and expert axes; returns tp · pp · cp."""
    tp = s.take("plan.tp", "tensor_parallel.autotp_size") or 1
    overlapped = s.switch("tensor_parallel.tp_overlap_comm")
    if tp > 1:
        s.put("plan.overlap.tp", bool(overlapped), "tensor_parallel.tp_overlap_comm")
    stages = s.get("pipeline.stages")
    pp = 1 if stages in (None, "auto") else s.take("plan.pp", "pipeline.stages") or 1
    if stages == "auto":
        s.leave("the number of stages is in the training script; no pipeline is assumed", "pipeline.stages")
    cp = s.take("plan.cp", "sequence_parallel_size") or 1
    if cp > 1:
        launch.set("plan.cp_kind", "all_to_all", "Ulysses", s.line("sequence_parallel_size"))
    s.get("data_parallel_size", "expert_parallel.enabled")
    if s.values.get("expert_parallel.enabled", True):
        s.take("plan.ep", "expert_parallel.autoep_size")
        s.take("plan.etp", "expert_parallel.expert_tensor_parallel_size")
    launch.set("plan.dp", "auto", "devices / (tp · pp · sequence_parallel_size)")
    return tp * pp * cp


def _training(launch: Launch, s: Settings, wanted: Wanted) -> None:
    half = {"bf16": s.get("bf16.enabled", "bfloat16.enabled"), "fp16": s.get("fp16.enabled")}
    on = [kind for kind, value in half.items() if value is True]
    auto = [kind for kind, value in half.items() if value == "auto"]
    if len(on) == 2:
        launch.wrong("fp16.enabled", "must not be true with bf16.enabled", True, s.line("fp16.enabled"))
    elif on:
        s.put("training.precision", on[0], f"{on[0]}.enabled")
    elif auto:
        why = f"{auto[0]}.enabled is auto: the trainer's choice"
        launch.assume("training.precision", auto[0], why)
    else:
        launch.set("training.precision", "fp32", f"neither bf16 nor fp16 enabled: {DEFAULT}")
    launch.set("training.framework", wanted.framework or "deepspeed", "the format of the file")
    optimizer = s.choice(OPTIMIZERS, "optimizer.type")
    if optimizer is not None:
        s.put("training.optimizer", optimizer, "optimizer.type")
    elif "optimizer.type" not in s.values:
        launch.assume("training.optimizer", "adam", "the optimizer is in the training script")
    reduced = s.choice(TYPES, "communication_data_type")
    if reduced is not None:
        s.put("training.grad_reduce_precision", reduced, "communication_data_type")


def _zero(launch: Launch, s: Settings) -> None:
    stage = s.number(ZERO + "stage", least=0)
    if stage is None and ZERO + "stage" not in s.values:
        stage = 0
        launch.set("plan.zero", 0, f"no {ZERO}stage: {DEFAULT}")
    elif stage is not None:
        s.put("plan.zero", stage, ZERO + "stage")
    overlap = s.get(ZERO + "overlap_comm")
    if stage in (1, 2) and isinstance(overlap, bool):  # stage 3 reduces layer by layer
        s.put("plan.overlap.grad_reduce", overlap, ZERO + "overlap_comm")
    elif stage in (1, 2):
        launch.set("plan.overlap.grad_reduce", False, f"{DEFAULT} of stage {stage}")
    if stage in (1, 2, 3) and s.values.get(ZERO + "reduce_bucket_size") == "auto":
        s.leave("the trainer takes hidden_size squared", ZERO + "reduce_bucket_size")
    elif stage in (1, 2, 3):
        size = s.take("plan.ddp_bucket_size", ZERO + "reduce_bucket_size")
        if size is not None and s.values.get(ZERO + "allgather_bucket_size") == size:
            s.get(ZERO + "allgather_bucket_size")
    if stage in (1, 2):
        launch.set("plan.overlap.param_gather", False, f"stage {stage} gathers after the optimizer's step")
    if stage == 3 and s.get(ZERO + "stage3_prefetch_bucket_size") == 0:
        s.put("plan.overlap.fsdp_prefetch", False, ZERO + "stage3_prefetch_bucket_size")
    for name, usual in MODELLED.items():
        if s.values.get(ZERO + name) == usual:
            s.get(ZERO + name)
    shard = s.get(ZERO + "mics_shard_size")
    if isinstance(shard, int) and shard > 0:
        s.put("plan.shard_group", shard, ZERO + "mics_shard_size")
    tiers = {}
    for part, field in (("offload_optimizer", "optimizer"), ("offload_param", "params")):
        device = s.choice({"none": "", "cpu": "host", "nvme": "nvme"}, f"{ZERO}{part}.device")
        share = s.get(f"{ZERO}{part}.ratio")
        if device:
            tiers[field] = device
            value = float(share) if isinstance(share, int | float) else 1.0
            s.put(f"plan.offload.{field}", value, f"{ZERO}{part}.device")
    if s.switch(ZERO + "cpu_offload") and "plan.offload.optimizer" not in launch.fields:
        s.put("plan.offload.optimizer", 1.0, ZERO + "cpu_offload")
    if "nvme" in tiers.values():
        s.put("plan.offload.tier", "nvme", ZERO + "offload_param.device", ZERO + "offload_optimizer.device")
        for field, device in tiers.items():
            if device != "nvme":
                part = "offload_param" if field == "params" else "offload_optimizer"
                s.put(f"plan.offload.{field}_tier", device, f"{ZERO}{part}.device")


def _batch(launch: Launch, s: Settings, wanted: Wanted, devices: int | None, inner: int) -> None:
    """Two of micro-batch, accumulation and batch give the third, as DeepSpeed does it."""
    names = {
        "micro": "train_micro_batch_size_per_gpu",
        "steps": "gradient_accumulation_steps",
        "batch": "train_batch_size",
    }
    found: dict[str, int | None] = {}
    for key, name in names.items():
        found[key] = None if s.get(name) == "auto" else s.number(name)
    micro, steps, batch = found["micro"], found["steps"], found["batch"]
    said = {key: (name, s.line(name)) for key, name in names.items()}
    if wanted.mbs is not None:
        micro, said["micro"] = wanted.mbs, ("--mbs of windtunnel import", None)
    if wanted.global_batch is not None:
        batch, said["batch"] = wanted.global_batch, ("--global-batch of windtunnel import", None)
    dp = devices // inner if devices is not None and devices % inner == 0 else None
    if micro is None and batch is not None and dp is not None:
        whole = dp * (steps or 1)
        if batch % whole:
            rule = f"must be divisible by data-parallel ranks · gradient_accumulation_steps = {whole}"
            launch.wrong(said["batch"][0], rule, batch, said["batch"][1])
            return
        micro, said["micro"] = batch // whole, (f"{said['batch'][0]} / ({dp} ranks · {steps or 1} steps)", None)
    if micro is None:
        if not any(p.field == names["micro"] for p in launch.problems) and (batch is None or dp is not None):
            line = s.line(names["micro"])
            launch.wrong(names["micro"], "is required (a number), or --mbs for windtunnel import", line=line)
        return
    launch.set("plan.mbs", micro, *said["micro"])
    if batch is not None:
        launch.set("training.global_batch", batch, *said["batch"])
        if steps is not None and dp is not None and wanted.global_batch is None and micro * steps * dp != batch:
            rule = f"must equal micro-batch {micro} · steps {steps} · data-parallel ranks {dp} = {micro * steps * dp}"
            launch.wrong(names["batch"], rule, batch, s.line(names["batch"]))
    elif s.values.get(names["steps"]) == "auto":
        launch.wrong(
            names["steps"],
            "is left to the trainer; write a number, or give --global-batch",
            "auto",
            s.line(names["steps"]),
        )
    elif dp is not None:
        how = f"micro-batch {micro} · steps {steps or 1} · data-parallel ranks {dp}"
        launch.set("training.global_batch", micro * (steps or 1) * dp, how, said["steps"][1])


def _recompute(launch: Launch, s: Settings, data: dict[str, Any]) -> None:
    """The file tunes checkpointing; whether the model's code uses it is not in the file."""
    if s.get("activation_checkpointing.cpu_checkpointing") is True:
        s.put("plan.offload.activations", 1.0, "activation_checkpointing.cpu_checkpointing")
    if s.get("pipeline.activation_checkpoint_interval") == 1:
        s.put("plan.recompute.policy", "full", "pipeline.activation_checkpoint_interval")
    elif data.get("activation_checkpointing"):
        launch.assume("plan.recompute.policy", "full", "activation_checkpointing is set; the model's code decides")
    else:
        launch.assume("plan.recompute.policy", "none", "the model's code decides")
