"""Writes `stacks/recipes/nemo/performance.yaml` from the tables of NeMo 2's performance scripts.

    python -m windtunnel_lab.recipes.nemo REPOSITORY COMMIT [COMMIT …]

The tables (`recommended_model_configs/model_configs_DEVICE.csv`) have a line a task, model, device and format; a recipe
is named `TASK_MODEL_COUNTgpu_DEVICE_FORMAT`, as the script `TASK_MODEL.py` is launched with these options.
"""

from __future__ import annotations

import csv
import io
import sys
from collections import defaultdict
from typing import Any

from windtunnel.importers.megatron_bridge import recipe_fields
from windtunnel_lab.recipes.records import DEVICES, content, git, nested, write

REPOSITORY = "NVIDIA-NeMo/NeMo"
MODELS = {
    "llama3_8b": "meta-llama/Llama-3.1-8B",
    "llama3_70b": "meta-llama/Llama-3.1-70B",
    "llama31_405b": "meta-llama/Llama-3.1-405B",
    "gpt3_175b": "openai/gpt3-175b",
    "mixtral_8x7b": "mistralai/Mixtral-8x7B-v0.1",
    "mixtral_8x22b": "mistralai/Mixtral-8x22B-v0.1",
    "nemotron3_8b": "nvidia/nemotron-3-8b-base-4k",
    "nemotron3_22b": "nvidia/nemotron-3-22b",
    "nemotron4_15b": "nvidia/Nemotron-4-15B",
    "nemotron4_340b": "nvidia/Nemotron-4-340B-Base",
    "nemotronh_8b": "nvidia/Nemotron-H-8B-Base-8K",
    "nemotronh_47b": "nvidia/Nemotron-H-47B-Base-8K",
    "nemotronh_56b": "nvidia/Nemotron-H-56B-Base-8K",
    "deepseek_v3": "deepseek-ai/DeepSeek-V3",
    "llama4_e16": "meta-llama/Llama-4-Scout-17B-16E",
    "llama4_e128": "meta-llama/Llama-4-Maverick-17B-128E",
    "qwen3_30b_a3b": "Qwen/Qwen3-30B-A3B",
    "qwen3_235b_a22b": "Qwen/Qwen3-235B-A22B",
}
SETTINGS = {
    "seq_len": "model.seq_length",
    "gbs": "train.global_batch_size",
    "mbs": "train.micro_batch_size",
    "tp_size": "model.tensor_model_parallel_size",
    "pp_size": "model.pipeline_model_parallel_size",
    "cp_size": "model.context_parallel_size",
    "vp_size": "model.virtual_pipeline_model_parallel_size",
    "ep_size": "model.expert_model_parallel_size",
    "etp_size": "model.expert_tensor_parallel_size",
}
FORMATS = {"bf16": "bf16", "fp8": "fp8", "fp8_mx": "mxfp8", "fp8_ss": "fp8_block"}
TASKS = {"pre_train": "pretrain", "sft": "sft", "lora": "lora"}


def main(repository: str, commits: list[str]) -> None:
    """Read the commits and write the file."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    dated = sorted(git(repository, "log", "-1", "--format=%cs %H", commit).split() for commit in commits)
    for day, commit in dated:
        for path in git(repository, "ls-tree", "-r", "--name-only", commit, "scripts").split():
            if "model_configs_" not in path or "strong_scaling" in path or not path.endswith(".csv"):
                continue
            for row in csv.DictReader(io.StringIO(git(repository, "show", f"{commit}:{path}"))):
                model, task = f"{row['model']}_{row['size']}", TASKS.get(row["task"] or "", "")
                if task and model in MODELS and row["num_gpus"]:
                    name, record = _record(row, task, model)
                    record = {"since": day, "source": f"{REPOSITORY} {path} at {commit[:12]}", **record}
                    if not found[name] or content(found[name][-1]) != content(record):
                        found[name].append(record)
    write("nemo", "performance", REPOSITORY, "windtunnel_lab.recipes.nemo", found)


def _record(row: dict[str, str], task: str, model: str) -> tuple[str, dict[str, Any]]:
    devices, device = int(float(row["num_gpus"])), row["system"]
    values: dict[str, Any] = {setting: int(float(row[name])) for name, setting in SETTINGS.items() if row.get(name)}
    values["mixed_precision"] = {"fp8_block": "subchannel"}.get(FORMATS[row["dtype"]], FORMATS[row["dtype"]])
    if values.get("model.virtual_pipeline_model_parallel_size") == 1:
        del values["model.virtual_pipeline_model_parallel_size"]
    if float(row.get("cuda_graphs") or 0):
        values["model.cuda_graph_impl"] = "transformer_engine"
    if layers := int(float(row.get("recompute_layers") or 0)):
        values |= {"model.recompute_granularity": "full", "model.recompute_method": "block"}
        values["model.recompute_num_layers"] = layers
    elif row.get("recompute_modules"):
        modules = [word.strip(" '\"[]") for word in row["recompute_modules"].split(",")]
        values |= {"model.recompute_granularity": "selective", "model.recompute_modules": modules}
    if float(row.get("use_mcore_fsdp") or 0):
        values["ddp.use_megatron_fsdp"] = True
        values["ddp.data_parallel_sharding_strategy"] = "optim_grads_params"
    training, plan = nested(recipe_fields(values))
    plan.setdefault("recompute", {"policy": "none"})
    training.setdefault("cuda_graphs", "none")
    if task != "pretrain":
        training["phase"] = task
    record: dict[str, Any] = {"model": MODELS[model], "device": DEVICES[device], "devices": devices}
    per_node = min(4 if device.startswith("g") else 8, devices)
    if per_node != 8:
        record["devices_per_node"] = per_node
    name = f"{task}_{model}_{devices}gpu_{device}_{row['dtype']}"
    return name, record | {"training": training, "plan": plan}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
