"""Start-up logs of servers as shell text: the command that a server says it was started with.

* vLLM prints `non-default args: {'model': …, 'tensor_parallel_size': 8}`: a Python dictionary of options.
* SGLang prints `server_args=ServerArgs(model_path='…', tp_size=8, …)`: every option, defaults too. What is off, empty
  or belongs to a feature that is off is no option of the command.

A log of several starts gives the last of them; of several servers (other models, other sizes) all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from windtunnel.importers.server_tables import options_text

_VLLM = re.compile(r"non-default args: (?=\{)")
_SGLANG = re.compile(r"server_args=ServerArgs(?=\()")

_NAMES = {"tp_size": "tp", "pp_size": "pp", "dp_size": "dp", "ep_size": "ep"}
_ONE = frozenset({"moe_dp_size", "attn_cp_size", "tokenizer_worker_num", "nnodes"})
"""Sizes that say nothing where they are 1."""
_OFF = (None, False, "", "auto", "null", "none", "default", "{}", -1)
_FEATURES = {
    "speculative_": "speculative_algorithm",
    "kt_": "kt_weight_path",
    "hicache_": "enable_hierarchical_cache",
    "ds_": "enable_double_sparsity",
    "offload_": "cpu_offload_gb",
    "lora_": "enable_lora",
    "max_lora": "enable_lora",
    "dllm_": "dllm_algorithm",
    "piecewise_cuda_graph_": "enable_piecewise_cuda_graph",
    "disaggregation_": "disaggregation_mode",
    "torch_compile_": "enable_torch_compile",
    "tbo_": "enable_two_batch_overlap",
    "eplb_": "enable_eplb",
    "mamba_": "max_mamba_cache_size",
    "prefill_delayer_": "enable_prefill_delayer",
    "mm_": "enable_multimodal",
}
"""First letters of options → the option that switches their feature on."""
_VLLM_UNTOLD = frozenset({"model_tag", "model", "host", "port", "api_key"})


def log_text(text: str) -> str:
    """The commands of a log; empty when the text says of none."""
    if "non-default args: {" not in text and "server_args=ServerArgs(" not in text:
        return ""
    found: dict[str, tuple[int, str]] = {}
    for line, settings in _starts(text, _VLLM, "}"):
        model = settings.get("model") or settings.get("model_tag")
        if model:
            options = options_text(settings, _VLLM_UNTOLD)
            found[f"vllm {model}"] = line, f"vllm serve {model} {options}"
    for line, settings in _starts(text, _SGLANG, ")"):
        if settings.get("model_path"):
            options = options_text({_NAMES.get(name, name): value for name, value in _switched_on(settings).items()})
            name = f"sglang {settings['model_path']} {settings.get('disaggregation_mode')}"
            found[name] = line, f"python3 -m sglang.launch_server {options}"
    made, last = "", 0
    for line, command in sorted(found.values()):
        made += "\n" * (line - last) + command
        last = line
    return made[1:] + "\n" if made else ""


def _switched_on(settings: dict[str, Any]) -> dict[str, Any]:
    """What of all settings was switched on."""
    kept = {}
    for name, value in settings.items():
        if value in _OFF or value in ([], {}) or (value == 1 and name in _ONE):
            continue
        feature = next((feature for prefix, feature in _FEATURES.items() if name.startswith(prefix)), name)
        if feature != name and settings.get(feature) in (*_OFF, 0, []):
            continue
        kept[name] = value
    return kept


def _starts(text: str, sign: re.Pattern[str], closing: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line and settings of every start in a log."""
    for match in sign.finditer(text):
        end = text.find("\n", match.end())
        line = text[match.end() : end if end >= 0 else len(text)]
        for last in _ends(line, closing):
            settings = _parsed(line[: last + 1])
            if settings is not None:
                yield text.count("\n", 0, match.start()) + 1, settings
                break


def _ends(line: str, closing: str) -> Iterator[int]:
    """Places where the settings may end: the bracket that closes them, else each later one."""
    at = line.find(closing)
    while at >= 0:
        yield at
        at = line.find(closing, at + 1)


def _parsed(text: str) -> dict[str, Any] | None:
    """A dictionary, or the arguments of a call, as Python prints them."""
    try:
        node = ast.parse(text if text.startswith("{") else f"f{text}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if isinstance(node, ast.Dict):
        return {str(_value(key)): _value(value) for key, value in zip(node.keys, node.values, strict=True) if key}
    if isinstance(node, ast.Call) and not node.args:
        return {keyword.arg: _value(keyword.value) for keyword in node.keywords if keyword.arg}
    return None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Call):
        return {keyword.arg: _value(keyword.value) for keyword in node.keywords if keyword.arg}
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item) for item in node.elts]
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return ast.unparse(node)
