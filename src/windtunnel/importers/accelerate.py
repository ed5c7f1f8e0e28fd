"""How Accelerate, torchrun or DeepSpeed start a training script: devices, sharding and precision.

Names: huggingface/accelerate `src/accelerate/commands/launch.py` and `utils/dataclasses.py` (1.x).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch
from windtunnel.importers.named_files import text_beside
from windtunnel.importers.yaml_settings import read_mapping

FSDP_ZERO = {
    "FULL_SHARD": 3,
    "1": 3,
    "SHARD_GRAD_OP": 2,
    "2": 2,
    "NO_SHARD": 0,
    "3": 0,
    "HYBRID_SHARD": 3,
    "4": 3,
    "TRUE": 3,
    "FALSE": 2,
}
_PRECISIONS = {"bf16": "bf16", "fp16": "fp16", "no": "fp32", "fp8": "fp8"}


@dataclass(slots=True, kw_only=True)
class Started:
    """What a launcher says of the processes that it starts."""

    per_node: tuple[int, str, int | None] | None = None
    nodes: tuple[int, str, int | None] | None = None
    zero: int | None = None
    """ZeRO stage, 3 for FSDP; None: replicas, or left to the script."""
    fsdp: bool = False
    deepspeed: bool = False
    offload: bool = False
    checkpoints: bool = False
    """FSDP wraps every layer in a checkpoint."""
    precision: str | None = None
    steps: int | None = None
    """Gradient accumulation steps of the launcher."""
    tp: int = 1
    cp: int = 1
    said: str = "the launcher"


def started(words: Sequence[tuple[str, int]], launch: Launch) -> Started:
    """Read the words of a launcher in front of the script, and the configuration that they name."""
    values, lines, _ = tune.flags_of(words)
    out = Started()
    config = values.get("config_file")
    if isinstance(config, str):
        text = text_beside(launch.file, config)
        if text is not None:
            inside, _ = read_mapping(text, launch)
            out = of_settings(inside, config)
        elif named(out, config):
            launch.assumed.append(
                ("plan.zero", str(out.zero), f"{config} is not in this file's folder; as its name says")
            )
        else:
            why = "is not in this file's folder: its devices and sharding are not read"
            launch.leave("--config_file", config, lines["config_file"], why)
    _of_options(out, values, lines)
    return out


def of_settings(values: Mapping[str, Any], said: str) -> Started:
    """Read an Accelerate configuration, flattened to dotted names."""
    out = Started(said=said)
    nodes, processes = values.get("num_machines"), values.get("num_processes")
    if isinstance(processes, int) and processes > 0:
        machines = nodes if isinstance(nodes, int) and nodes > 0 else 1
        out.per_node = (max(processes // machines, 1), f"{said}: num_processes", None)
        out.nodes = (machines, f"{said}: num_machines", None)
    kind = str(values.get("distributed_type", "NO")).upper()
    out.precision = _PRECISIONS.get(str(values.get("mixed_precision", "")).lower())
    if kind == "FSDP":
        c = "fsdp_config."
        chosen = values.get(c + "fsdp_sharding_strategy", values.get(c + "fsdp_reshard_after_forward", "FULL_SHARD"))
        out.fsdp, out.zero = True, FSDP_ZERO.get(str(chosen).upper(), 3)
        out.offload = values.get(c + "fsdp_offload_params") is True
        out.checkpoints = values.get(c + "fsdp_activation_checkpointing") is True
    elif kind == "DEEPSPEED":
        c = "deepspeed_config."
        stage = values.get(c + "zero_stage")
        named(out, str(values.get(c + "deepspeed_config_file", "")))
        out.deepspeed, out.zero = True, stage if isinstance(stage, int) else out.zero if out.zero is not None else 2
        out.offload = values.get(c + "offload_optimizer_device") in ("cpu", "nvme")
        steps = values.get(c + "gradient_accumulation_steps")
        out.steps = steps if isinstance(steps, int) else None
    for axis in ("tp", "cp"):
        size = values.get(f"parallelism_config.parallelism_config_{axis}_size")
        if isinstance(size, int):
            setattr(out, axis, size)
    return out


def named(out: Started, config: str) -> bool:
    """Take ZeRO stage or FSDP from the name of a file; whether it says one."""
    found = tune.zero_by_name(config)
    low = config.lower()
    if found is not None:
        out.deepspeed, (out.zero, out.offload) = True, found
    elif "fsdp" in low:
        out.fsdp, out.zero = True, 3
    elif re.search(r"multi_?gpu|single_?gpu|ddp", low):
        out.zero = 0
    else:
        return False
    out.said = config
    return True


def _of_options(out: Started, values: Mapping[str, Any], lines: Mapping[str, int]) -> None:
    """Options of the command line, which win over the configuration."""
    nodes = next((values[n] for n in ("num_machines", "nnodes") if isinstance(values.get(n), int)), None)
    if nodes:
        out.nodes = (nodes, "--num_machines", None)
    for name in ("nproc_per_node", "num_gpus"):
        if isinstance(values.get(name), int):
            out.per_node = (values[name], f"--{name}", lines[name])
    processes = values.get("num_processes")
    if isinstance(processes, int):
        out.per_node = (max(processes // (nodes or 1), 1), "--num_processes", lines["num_processes"])
    precision = _PRECISIONS.get(str(values.get("mixed_precision", "")))
    out.precision = precision or out.precision
    if values.get("use_fsdp"):
        chosen = str(values.get("fsdp_sharding_strategy", "FULL_SHARD")).upper()
        out.fsdp, out.zero = True, FSDP_ZERO.get(chosen, 3)
    for name in ("deepspeed_config_file", "deepspeed_config", "deepspeed"):
        if isinstance(values.get(name), str) and tune.zero_by_name(values[name]):
            named(out, values[name])
    if values.get("use_deepspeed") and not out.deepspeed:
        out.deepspeed, out.zero = True, 2
    if isinstance(values.get("zero_stage"), int):
        out.deepspeed, out.zero = True, values["zero_stage"]
    if values.get("offload_optimizer_device") in ("cpu", "nvme"):
        out.offload = True
