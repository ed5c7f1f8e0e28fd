"""Writes `stacks/recipes/megatron_bridge/*.yaml` from a checkout of Megatron-Bridge.

    python -m windtunnel_lab.recipes.megatron_bridge REPOSITORY COMMIT [COMMIT …]

REPOSITORY is a git directory; commits (or tags) are read in the order of their dates, and a recipe gets a further
record where it changed what it stands for. A new release is one more commit at the end.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from windtunnel import catalog
from windtunnel.data_files import ROOT
from windtunnel.errors import BadInput
from windtunnel.importers.megatron_bridge import recipe_fields
from windtunnel.specs.model import ModelSpec
from windtunnel_lab.recipes.records import DEVICES, content, git, nested, write

FRAMEWORK = "megatron_bridge"
REPOSITORY = "NVIDIA-NeMo/Megatron-Bridge"
READ = (
    "src/megatron/bridge/recipes",
    "src/megatron/bridge/perf_recipes",
    "src/megatron/bridge/training/mixed_precision.py",
    "scripts/performance",
)
MODELS = (
    # providers without a name of the hub, by the recipe's name
    (r"^(moonlight|kimi_moonlight)", "moonshotai/Moonlight-16B-A3B"),
    (r"^olmoe", "allenai/OLMoE-1B-7B-0924"),
    (r"^gemma3_1b", "google/gemma-3-1b-pt"),
    (r"^gpt3_175b", "openai/gpt3-175b"),
    (r"^nemotron_3_nano_(?!4b|omni)", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B"),
    (r"^nemotronh_8b", "nvidia/Nemotron-H-8B-Base-8K"),
    (r"^nemotronh_47b", "nvidia/Nemotron-H-47B-Base-8K"),
    (r"^nemotronh_56b", "nvidia/Nemotron-H-56B-Base-8K"),
    (r"^nemotron_nano_9b", "nvidia/NVIDIA-Nemotron-Nano-9B-v2"),
    (r"^nemotron_nano_12b", "nvidia/NVIDIA-Nemotron-Nano-12B-v2"),
)
DATED_SINCE = "2026-04-01"
"""From when on commits of the main branch are dated."""
ENVIRONMENT = (
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "NCCL_NVLS_ENABLE",
    "NVLINK_DOMAIN_SIZE",
    "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN",
    "PYTORCH_CUDA_ALLOC_CONF",
)
"""Variables with a bearing on the time or memory of a step."""
ADAPTED = {
    "linear_qkv": "qkv",
    "linear_proj": "proj",
    "linear_fc1": "fc1",
    "linear_fc2": "fc2",
    "linear_q_proj": "q",
    "linear_q_down_proj": "q",
    "linear_q_up_proj": "q",
    "linear_kv_down_proj": "k",
    "linear_kv_up_proj": "v",
    "in_proj": "qkv",
    "out_proj": "proj",
}
"""Products with an adapter; those of Mamba's mixers stand for attention's."""


def main(repository: str, commits: list[str]) -> None:
    """Read the commits and write the files."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    dated = sorted((git(repository, "log", "-1", "--format=%cs %H", commit).split(), commit) for commit in commits)
    for (day, commit), _ in dated:
        records = dict(_records(repository, commit))
        _default_variants(records)
        for name, record in records.items():
            family = record.pop("family")
            same = record.pop("function")
            if same in records and same != name and content(records[same]) == content(record):
                record = {"since": day, "source": record["source"], "same_as": same}
            else:
                record = {"since": day, **record}
            own = found[family][name]
            if not own or content(own[-1]) != content(record):
                own.append(record)
    for family, recipes in found.items():
        write(FRAMEWORK, family, REPOSITORY, "windtunnel_lab.recipes.megatron_bridge", recipes)
    known = {commit: day for (day, commit), _ in dated}
    newest = dated[-1][0][1]
    for line in git(repository, "log", newest, f"--since={DATED_SINCE}", "--format=%H %cs").splitlines():
        commit, day = line.split()
        known.setdefault(commit, day)
    head = "# Commits of the main branch and those whose recipes were read, twelve letters of each, and their dates.\n"
    lines = [
        f"{commit[:12]!r}: {day}\n" for commit, day in sorted(known.items(), key=lambda entry: (entry[1], entry[0]))
    ]
    (ROOT / "stacks/recipes" / FRAMEWORK / "commits.yaml").write_text(head + "".join(lines), "utf-8")


def _default_variants(records: dict[str, dict[str, Any]]) -> None:
    """A launcher of variants takes the second where there is one, else the first: its name needs no variant."""
    by_stem: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in records:
        if match := re.match(r"^(.+?)_\d+gpu(_.+)_(v\d)_config$", name):
            by_stem[match[1] + match[2]].append((match[3], name))
    for variants in by_stem.values():
        variant, name = max(v for v in variants if v[0] in ("v1", "v2"))
        records[name.replace(f"_{variant}_config", "_config")] = records.pop(name)


def _records(repository: str, commit: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name → record of every recipe of a commit that could be run; the rest is listed on standard error."""
    with tempfile.TemporaryDirectory() as folder:
        _extract(repository, commit, Path(folder))
        script = Path(__file__).with_name("run_functions.py")
        ran = subprocess.run([sys.executable, "-I", str(script), folder], capture_output=True, text=True, check=True)
    for name, made in json.loads(ran.stdout).items():
        settings = made["settings"]
        if isinstance(settings, str):
            print(f"{commit[:9]} {name}: {settings}", file=sys.stderr)
        elif "train.micro_batch_size" in settings and "WanModelProvider" not in str(settings.get("model.(class)")):
            yield name, _record(name, made, commit)


def _extract(repository: str, commit: str, folder: Path) -> None:
    """Python files of a commit; a file that the repository's copy lacks is left out."""
    listed = git(repository, "ls-tree", "-r", commit, "--", *READ)
    for line in listed.splitlines():
        meta, path = line.split("\t")
        if path.endswith(".py"):
            words = ["git", "-C", repository, "cat-file", "blob", meta.split()[2]]
            blob = subprocess.run(words, capture_output=True, check=False)
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if blob.returncode == 0:
                place.write_bytes(blob.stdout)


def _record(name: str, made: dict[str, Any], commit: str) -> dict[str, Any]:
    settings = dict(made["settings"])
    module = made["module"].replace(".", "/")
    root = "src/" if module.startswith("megatron") else "scripts/performance/"
    hardware = re.search(r"_(h100|b200|b300|gb200|gb300|vr200|r100)(_|$)", name) or re.search(
        r"_(h100|b200|b300|gb200|gb300|vr200|r100)(_|$)", made["function"]
    )
    count = re.search(r"_(\d+)gpu_", name) or re.search(r"_(\d+)gpu_", made["function"])
    record: dict[str, Any] = {
        "family": _family(made["module"]),
        "function": made["function"],
        "source": f"{REPOSITORY} {root}{module}.py {made['function']} at {commit[:12]}",
        "model": _model(name, settings),
    }
    if hardware:
        record["device"] = DEVICES[hardware[1]]
    if count or made.get("devices"):
        devices = record["devices"] = int(count[1]) if count else made["devices"]
        per_node = min(4 if hardware and hardware[1][0] in "gvr" else 8, devices)
        if per_node != 8:
            record["devices_per_node"] = per_node
    values = _settings(settings, hardware[1] if hardware else "", _has_experts(record["model"], settings))
    fields = recipe_fields(values)
    training, plan = nested(fields)
    training |= _phase(name, settings)
    plan = _stated(plan, training, settings, _has_experts(record["model"], settings))
    environment = {key: str(settings[f"env_vars.{key}"]) for key in ENVIRONMENT if f"env_vars.{key}" in settings}
    record |= {"training": training, "plan": plan}
    return record | ({"environment": environment} if environment else {})


def _family(module: str) -> str:
    parts = module.split(".")
    for package in ("recipes", "perf_recipes", "configs"):
        if package in parts:
            family = parts[parts.index(package) + 1]
            return {"llama3": "llama", "llama31": "llama", "qwen3": "qwen", "moonlight": "kimi"}.get(family, family)
    return "other"


def _model(name: str, settings: dict[str, Any]) -> str:
    """The catalogue's name of a model, or the hub's."""
    hub = settings.get("model._hub") or next((m for pattern, m in MODELS if re.match(pattern, name)), "")
    spec = _known(str(hub))
    return spec.name if spec else str(hub)


@cache
def _known(name: str) -> ModelSpec | None:
    """The catalogue's model of a name."""
    try:
        return catalog.model(name) if name else None
    except BadInput:
        return None


def _has_experts(model: str, settings: dict[str, Any]) -> bool:
    """Whether a model has experts; of one that the catalogue has not, whether the recipe spreads experts."""
    spec = _known(model)
    return bool(spec.num_experts) if spec else (settings.get("model.expert_model_parallel_size") or 1) > 1


def _settings(settings: dict[str, Any], device: str, experts: bool) -> dict[str, Any]:
    """Settings as the framework ends up with them when it starts, for `recipe_fields`."""
    sections = ("model.", "train.", "ddp.", "optimizer.", "comm_overlap.", "dist.", "mixed_precision")
    values = {key: value for key, value in settings.items() if key.startswith(sections) and "(class)" not in key}
    for key in ("dataset.seq_length", "dataset.sequence_length"):
        if settings.get(key):
            values.setdefault("model.seq_length", settings[key])
    values["mixed_precision"] = _precision(settings)
    values["model.cross_entropy_loss_fusion"] = settings.get("model.cross_entropy_loss_fusion", True)
    if settings.get("mixed_precision.grad_reduce_in_fp32") is None:  # a name: its function reduces in fp32
        values["mixed_precision.grad_reduce_in_fp32"] = True
    if "comm_overlap.(class)" in settings and settings.get("optimizer.use_distributed_optimizer"):
        for key in ("overlap_grad_reduce", "overlap_param_gather"):  # comm_overlap.py
            if values.get(f"comm_overlap.{key}") is None:
                values[f"comm_overlap.{key}"] = True
    values["optimizer.use_distributed_optimizer"] = bool(
        settings.get("ddp.use_distributed_optimizer") or settings.get("optimizer.use_distributed_optimizer")
    )
    values.pop("ddp.use_distributed_optimizer", None)
    if values.get("model.moe_flex_dispatcher_backend") == "deepep" and device.startswith("gb"):
        values["model.moe_token_dispatcher_type"] = "alltoall"  # flex_dispatcher_backend.py: DeepEP is not for NVL72
    if values.get("model.moe_token_dispatcher_type") == "flex" and not values.get("model.moe_flex_dispatcher_backend"):
        values["model.moe_token_dispatcher_type"] = "alltoall"
    if not experts:
        values = {key: v for key, v in values.items() if ".moe_" not in key and ".expert_" not in key}
        values.pop("model.use_transformer_engine_op_fuser", None)
    return values


def _precision(settings: dict[str, Any]) -> str:
    """The precision's name, of the recipe or of the flags that a recipe set on it."""
    if isinstance(settings.get("mixed_precision"), str):
        return str(settings["mixed_precision"])
    if settings.get("mixed_precision.fp4"):
        return "nvfp4"
    if settings.get("mixed_precision.fp8"):
        return {"mxfp8": "mxfp8", "blockwise": "subchannel"}.get(settings["mixed_precision.fp8_recipe"], "fp8")
    return "fp16" if settings.get("mixed_precision.fp16") else "bf16"


def _phase(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Fine-tuning, and the adapters of a recipe that has some."""
    if not str(settings.get("peft.(class)", "")).endswith("LoRA"):
        return {"phase": "sft"} if re.search(r"_(sft|finetune)_", f"_{name}_") else {}
    targets = settings.get("peft.target_modules") or ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"]
    lora: dict[str, Any] = {"rank": settings.get("peft.dim", 32)}
    lora["targets"] = list(dict.fromkeys(ADAPTED[t] for t in targets if t in ADAPTED))
    if settings.get("peft.dropout"):
        lora["dropout"] = settings["peft.dropout"]
    return {"phase": "lora", "lora": lora}


def _stated(plan: dict[str, Any], training: dict[str, Any], settings: dict[str, Any], experts: bool) -> dict[str, Any]:
    """A recipe decides every switch: what it leaves off is off, whatever the release's default is."""
    plan.setdefault("recompute", {"policy": "none"})
    overlap = plan.setdefault("overlap", {})
    if plan.get("tp", 1) > 1:
        overlap.setdefault("tp", False)
        plan.setdefault("sp", False)
    if plan.get("cp", 1) > 1:
        plan.setdefault("cp_kind", "ring")
    training.setdefault("cuda_graphs", "none")
    if experts:
        overlap.setdefault("moe_a2a", False)
        training.setdefault("moe_dispatcher", "alltoall")
        training.setdefault("fused_experts", False)
    return plan


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
