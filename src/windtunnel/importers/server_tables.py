"""YAML tables of servers as shell text: Ray Serve LLM, srt-slurm, Dynamo's and AIConfigurator's configurations.

Each becomes the commands that the tool itself would start, one a pool, below the comment that says how many there are.
Sources: ray-project/ray `python/ray/llm/_internal/serve/configs`, NVIDIA/srt-slurm `docs/config-reference.md`,
ai-dynamo/aiconfigurator `src/aiconfigurator/generator`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from windtunnel.files.parsing import NotYaml, whole_number, yaml_of
from windtunnel.importers.server_fields import pool_comment

_ENGINES = {
    "vllm": "vllm serve {model}",
    "sglang": "python3 -m sglang.launch_server --model-path {model}",
    "trtllm": "trtllm-serve {model}",
    "trt": "trtllm-serve {model}",
}
_SIGNS = ("engine_args", "llm_configs", "model_loading_config", "_config:", "deployment_config", "workers")
_OWN = frozenset(
    {"model-path", "served-model-name", "disaggregation-mode", "model_path", "served_model_name", "disaggregation_mode"}
)
"""Flags that the job sets by itself."""
_DRIVER = {"distributed_executor_backend", "model", "served_model_name", "device"}


def tables_text(text: str) -> str:
    """The commands of a table of servers; empty when the text is none."""
    if not any(sign in text for sign in _SIGNS):
        return ""
    try:
        data = yaml_of(text)
    except NotYaml:
        return ""
    if isinstance(data, list):
        return _flagscale(data)
    if not isinstance(data, dict):
        return ""
    for reader in (_ray, _srt, _aiconfigurator):
        if found := reader(data):
            return found
    return ""


def _table(data: Any, *path: str) -> dict[str, Any]:
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return dict(data) if isinstance(data, Mapping) else {}


def options_text(settings: Mapping[str, Any], left_out: frozenset[str] | set[str] = frozenset()) -> str:
    """Settings as options of a command; tables as JSON."""
    words = []
    for name, value in settings.items():
        if name in left_out or value is None:
            continue
        option = "--" + str(name).replace("_", "-")
        if value is True:
            words.append(option)
        elif value is False:
            words.append(f"{option}=false")
        elif isinstance(value, Mapping):
            words += [option, shlex.quote(json.dumps(value))]
        elif isinstance(value, list):
            words += [option, *(shlex.quote(str(item)) for item in value)]
        else:
            words += [option, shlex.quote(str(value))]
    return " ".join(words)


def _pool(name: str, copies: int, devices: int, part: str, command: str, *, nodes: int = 1) -> str:
    return f"{pool_comment(name, copies, devices, part, nodes)}\n{command}\n"


def _ray(data: Mapping[str, Any]) -> str:
    """Applications of `ray.serve.llm`, and one file of a model (`model_loading_config`)."""
    inner = _table(data, "spec").get("serveConfigV2")
    if isinstance(inner, str):
        try:
            inner_data = yaml_of(inner)
        except NotYaml:
            return ""
        return _ray(inner_data) if isinstance(inner_data, dict) else ""
    configs: list[Any] = [data] if "model_loading_config" in data else []
    listed = data.get("applications")
    for application in listed if isinstance(listed, list) else []:
        args = _table(application, "args")
        inside = args.get("llm_configs")
        configs += inside if isinstance(inside, list) else []
        for part in ("prefill", "decode"):
            if own := _table(args, f"{part}_config"):
                configs.append({**own, "(part)": part})
    out = []
    for config in configs:
        loading = _table(config, "model_loading_config")
        if not loading:
            continue
        source = loading.get("model_source") or loading.get("model_id")
        engine = _table(config, "engine_kwargs")
        scaling = _table(config, "deployment_config")
        copies = scaling.get("num_replicas") or _table(scaling, "autoscaling_config").get("min_replicas") or 1
        copies = copies if isinstance(copies, int) else 1
        part = str(config.get("(part)", ""))
        command = f"vllm serve {shlex.quote(str(source))} {options_text(engine, _DRIVER)}"
        out.append(_pool(part or str(loading.get("model_id", "")), max(copies, 1), 1, part, command))
    return "".join(out)


def _flagscale(data: list[Any]) -> str:
    """Services of FlagScale: an engine and its arguments."""
    out = []
    for service in data:
        engine, own = _table(service).get("engine"), _table(service, "engine_args")
        if engine not in _ENGINES or not own.get("model"):
            continue
        command = f"{_ENGINES[engine].format(model=shlex.quote(str(own['model'])))} {options_text(own, _DRIVER)}"
        out.append(_pool(str(_table(service).get("serve_id", "")), 1, 1, "", command))
    return "".join(out)


def _srt(data: Mapping[str, Any]) -> str:
    """A job of srt-slurm: workers of a split deployment, or alike ones, with their flags."""
    resources, backend = _table(data, "resources"), _table(data, "backend")
    kind = next((kind for kind in ("sglang", "vllm", "trtllm") if f"{kind}_config" in backend), "")
    if not kind or "gpus_per_node" not in resources:
        return ""
    model = _table(data, "model").get("path", "$MODEL")
    per_node = resources.get("gpus_per_node")
    per_node = per_node if isinstance(per_node, int) and per_node > 0 else None
    out = []
    for part in ("prefill", "decode", "agg", "aggregated"):
        flags = _table(backend, f"{kind}_config", part)
        key = "agg" if part == "aggregated" else part
        nodes, workers = resources.get(f"{key}_nodes"), resources.get(f"{key}_workers")
        if not isinstance(workers, int) or workers < 1 or (not flags and not nodes):
            continue
        each = resources.get(f"gpus_per_{key}")
        if not isinstance(each, int) and isinstance(nodes, int) and isinstance(per_node, int):
            each = max(nodes * per_node // workers, 1)
        size = each if isinstance(each, int) else 1
        across = max(-(-size // per_node), 1) if isinstance(per_node, int) else 1
        names = {str(name).replace("_", "-") for name in flags}
        more = "" if names & {"tp-size", "tensor-parallel-size", "tp"} else f" {_tp(kind)} {size}"
        command = f"{_ENGINES[kind].format(model=shlex.quote(str(model)))} {options_text(flags, _OWN)}{more}"
        devices = per_node if across > 1 and isinstance(per_node, int) else size
        out.append(_pool(part, workers, devices, part if part in ("prefill", "decode") else "", command, nodes=across))
    return "".join(out) + (_load(data) if out else "")


def _tp(kind: str) -> str:
    return {"sglang": "--tp-size", "vllm": "--tensor-parallel-size", "trtllm": "--tp_size"}[kind]


def _load(data: Mapping[str, Any]) -> str:
    """The load of srt-slurm's benchmark."""
    bench = _table(data, "benchmark")
    lengths = [bench.get("isl"), bench.get("osl")]
    slots = bench.get("concurrencies")
    slots = str(slots).strip("[]").replace("x", ",").split(",")[0] if slots is not None else ""
    if not all(isinstance(length, int) for length in lengths) or (count := whole_number(slots.strip())) is None:
        return ""
    return (
        f"vllm bench serve --dataset-name random --random-input-len {lengths[0]} --random-output-len {lengths[1]} "
        f"--max-concurrency {count} --num-prompts {10 * count}\n"
    )


def _aiconfigurator(data: Mapping[str, Any]) -> str:
    """A configuration of AIConfigurator: the agg worker, or prefill and decode workers, with their sizes."""
    service = _table(data, "ServiceConfig") or data
    workers = _table(data, "params") or _table(data, "workers") or data
    engine = str(data.get("backend") or data.get("backend_name") or service.get("backend") or "trtllm")
    model = data.get("model_path") or data.get("model_name") or service.get("model_path") or service.get("model_name")
    if not isinstance(model, str) or engine not in _ENGINES:
        return ""
    counts = _table(data, "WorkerConfig") or _table(data, "workers") or data
    out = []
    for part in ("agg", "prefill", "decode"):
        own = _table(workers, part) or _table(data, f"{part}_worker_config")
        if not own:
            continue
        copies = counts.get(f"{part}_workers", own.get("workers", 1))
        command = _ENGINES[engine].format(model=shlex.quote(model))
        command += "".join(_sizes(engine, own))
        tp, pp = own.get("tensor_parallel_size", own.get("tp", 1)), own.get("pipeline_parallel_size", own.get("pp", 1))
        devices = tp * pp if isinstance(tp, int) and isinstance(pp, int) else 1
        out.append(_pool(part, copies if isinstance(copies, int) else 1, devices, part.replace("agg", ""), command))
    return "".join(out)


def _sizes(engine: str, own: Mapping[str, Any]) -> list[str]:
    """Sizes of a worker as options of its engine."""
    names: dict[str, dict[str, str]] = {
        "vllm": {"tp": "--tensor-parallel-size", "pp": "--pipeline-parallel-size", "batch": "--max-num-seqs"},
        "sglang": {"tp": "--tp-size", "pp": "--pp-size", "batch": "--max-running-requests"},
        "trtllm": {"tp": "--tp_size", "pp": "--pp_size", "ep": "--ep_size", "batch": "--max_batch_size"},
    }
    spelled = {
        "tp": ("tensor_parallel_size", "tp"),
        "pp": ("pipeline_parallel_size", "pp"),
        "ep": ("moe_expert_parallel_size", "moe_ep"),
        "batch": ("max_batch_size", "bs"),
    }
    out = []
    for key, option in names["trtllm" if engine == "trt" else engine].items():
        value = next((own[name] for name in spelled[key] if isinstance(own.get(name), int)), None)
        if value is not None:
            out.append(f" {option} {value}")
    return out
