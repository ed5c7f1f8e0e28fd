"""MaxText's commands, and Google's recipes around them (xpk, Cluster Toolkit), as a scenario.

Names and defaults: AI-Hypercomputer/maxtext `src/MaxText/configs/base.yml`; AI-Hypercomputer/tpu-recipes `training/`.
A job that names its TPU states device and devices. A 7x chip has two devices of JAX: batches of a device count twice.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers import launched
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.launch_text import tidy
from windtunnel.importers.settings import Settings
from windtunnel.importers.shell import read_script

FORMAT = "maxtext"
TITLE = "MaxText overrides"
OVER = ("megatron_bridge", "trl", "torchtune", "verl")
PROGRAM = re.compile(
    r"-m\s+(?:MaxText|maxtext)\.(?:trainers\.\w+\.)?(?:train|sft\S*|train_\w+|\$\{?\w+\}?)(?=\s|$)"
    r"|\bMaxText/train\.py\b|\bmaxtext/train\.py\b|\bMaxText/configs/\w+\.yml\b"
)
MARKS = re.compile(r"\b(per_device_batch_size|ici_fsdp_parallelism|max_target_length|base_output_directory)=")
TPU = re.compile(
    r"--(?:device-type|tpu-type|compute-type)[= ]\"?"
    r"(?P<kind>tpu7x|v6e|v5p|v5litepod|v5e|v4|ct6e-standard|ct5p-hightpu)-?(?P<size>\d{1,6}(?:x\d{1,6}){0,3})?"
    r"|# accelerator (?:tpu-)?(?P<named>\w+?)(?:-slice|-podslice)?-(?P<topology>\d{1,6}(?:x\d{1,6}){1,3})"
)
TOPOLOGY = re.compile(r"--topology[= ]\"?(\d{1,6}(?:x\d{1,6}){1,3})")
SLICES = re.compile(r"--num-slices[= ]\"?(\d{1,6})")
DEVICES = {
    "tpu7x": "tpu-v7x",
    "v6e": "tpu-v6e",
    "ct6e-standard": "tpu-v6e",
    "v5p": "tpu-v5p",
    "ct5p-hightpu": "tpu-v5p",
    "v5litepod": "tpu-v5e",
    "v5e": "tpu-v5e",
    "v4": "tpu-v4",
}
CORES = ("v5p", "v4")
"""Kinds whose number counts TensorCores, two a chip."""
REMAT = {
    "full": "full",
    "minimal": "none",
    "minimal_flash": "none",
    "minimal_with_context": "none",
    "save_dot_except_mlp": "selective",
    "save_dot_except_mlpwi": "selective",
    "save_qkv_proj": "selective",
    "save_out_proj": "selective",
    "qkv_proj_offloaded": "selective",
    "minimal_offloaded": "selective",
    "custom": "selective",
    "none": "none",
}
QUANTIZED = {
    "int8": "int8",
    "fp8": "fp8",
    "fp8_full": "fp8",
    "nanoo_fp8": "fp8",
    "aqt_fp8": "fp8",
    "fp8_gpu": "fp8",
    "te_fp8_delayedscaling": "fp8",
    "te_fp8_currentscaling": "fp8",
    "te_mxfp8": "mxfp8",
    "fp8_nanoo": "fp8",
}


def detect(text: str) -> bool:
    """Whether a text starts MaxText with its own settings."""
    return PROGRAM.search(text) is not None and MARKS.search(text) is not None and "def " not in text


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a command; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    found = launched.find(text, launch, wanted.env, PROGRAM)
    if found is None:
        launch.wrong("", "starts MaxText nowhere that can be read")
        return launch
    s = found.settings(launch)
    tpu = _tpu(text, wanted, file)
    if tpu is not None and wanted.device is None:
        wanted = replace(wanted, device=tpu[0])
    if tpu is not None and wanted.nodes is None:
        from windtunnel.importers.training_tables import devices_of

        devices = devices_of(launch, wanted, tpu[1], "the slice of TPUs that the job asks for")
    else:
        started = launched.started_by(found, launch, wanted)
        devices = launch.cluster(wanted, started.nodes, started.per_node)
    if tpu is not None:
        launch.origin["cluster.device"] = ("the slice of TPUs that the job asks for", None)
    fill(launch, s, wanted, devices, 2 if launch.fields.get("cluster.device") == "tpu-v7x" else 1)
    s.rest()
    return launch


def _tpu(text: str, wanted: Wanted, file: str) -> tuple[str, int] | None:
    """Device and chips of the slices that a job asks for."""
    script = read_script(tidy(text), wanted.env, file=file)
    words = " ".join(word.text for command in script.commands for word in command)
    found = TPU.search(words) or TPU.search(text)
    if found is None:
        return None
    kind = found["kind"] or found["named"]
    if kind not in DEVICES:
        return None
    size = found["size"] or found["topology"]
    if kind.startswith("ct") or size is None:
        topology = TOPOLOGY.search(words)
        size = topology[1] if topology else None
    if size is None:
        return None
    chips = math.prod(int(part) for part in size.split("x"))
    if kind in CORES and "x" not in size:
        chips //= 2
    slices = SLICES.search(words)
    return DEVICES[kind], max(chips, 1) * (int(slices[1]) if slices else 1)


def fill(launch: Launch, s: Settings, wanted: Wanted, devices: int | None, split: int) -> None:
    """Fields of MaxText's settings.

    Args:
        launch: what is filled.
        s: settings, by MaxText's names.
        wanted: what the command line says.
        devices: number of devices, where it is known.
        split: devices of JAX on one of them.
    """
    tune.base_model(launch, s, wanted, "model_name")
    usual = (2048, "no max_target_length: MaxText's default")
    tune.sequence_length(launch, s, wanted, "max_target_length", usual=usual)
    launch.set("training.precision", s.dtype("dtype") or "bf16", *s.said("dtype"))
    quantized = str(s.get("quantization") or "").strip('"')
    if quantized and quantized in QUANTIZED:
        s.put("training.precision", QUANTIZED[quantized], "quantization")
    elif quantized:
        launch.leave("quantization", quantized, s.line("quantization"), "no such format here", "precision")
    launch.set("training.framework", wanted.framework or "jax", "MaxText")
    inner = 1
    for axis, names in (
        ("tp", ("tensor", "tensor_transpose")),
        ("pp", ("pipeline",)),
        ("cp", ("context", "sequence")),
        ("ep", ("expert",)),
    ):
        size = math.prod(max(s.get(f"{net}_{name}_parallelism") or 1, 1) for net in ("ici", "dcn") for name in names)
        if size > 1:
            s.put(f"plan.{axis}", size, f"ici_{names[0]}_parallelism")
            inner *= size if axis != "ep" else 1
    s.get(*(f"{net}_{name}_parallelism" for net in ("ici", "dcn") for name in ("data", "fsdp", "fsdp_transpose")))
    launch.set("plan.zero", 3, "FSDP over what is left of the slice")
    launch.set("plan.dp", "auto", "devices / (tp · pp · cp)")
    policy = str(s.get("remat_policy") or "full")
    launch.set("plan.recompute.policy", REMAT.get(policy, "full"), *s.said("remat_policy"))
    if policy not in REMAT or policy == "custom":
        s.leave("which tensors are kept is not followed: counted as selective", "remat_policy")
    each, steps = s.get("per_device_batch_size"), s.number("gradient_accumulation_steps") or 1
    if each is None:
        each = 12
        launch.assumed.append(("plan.mbs", "12", "no per_device_batch_size: MaxText's default"))
    if not isinstance(each, int | float) or each <= 0:
        launch.wrong("per_device_batch_size", "must be a number above 0", each, s.line("per_device_batch_size"))
        return
    micro = max(round(each * split * inner), 1)
    launch.set("plan.mbs", wanted.mbs or micro, *s.said("per_device_batch_size"))
    if wanted.global_batch is not None:
        launch.set("training.global_batch", wanted.global_batch, "--global-batch of windtunnel import")
    elif devices is not None:
        rows = max(round(each * split * devices * steps), 1)
        how = f"per_device_batch_size · {devices * split} devices of JAX · {steps} steps"
        launch.set("training.global_batch", rows, how, s.line("per_device_batch_size"))
