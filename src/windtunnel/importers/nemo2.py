"""A Python file of NeMo 2 that takes a recipe (`llm.NAME.pretrain_recipe(…)`) and overrides it, as a scenario.

Names: NVIDIA/NeMo `nemo/collections/llm/recipes/` (2.0 to 2.4). The file is read, not run: written values, constants
and defaults of arguments. What the recipe sets and the file does not is not in it, and is asked.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings

FORMAT = "nemo2"
TITLE = "NeMo 2 recipe"
OVER = ("megatron_bridge", "torchtitan")
CALL = re.compile(r"\b(\w+)\.(pretrain|finetune)_recipe\(|recipes\.(\w+) import (?:\w+, )*(pretrain|finetune)_recipe")
AXES = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size",
    "vpp": "virtual_pipeline_model_parallel_size",
}
STRATEGY = "trainer.strategy."


def detect(text: str) -> bool:
    """Whether a text takes a recipe of NeMo 2."""
    return "nemo" in text and "import" in text and CALL.search(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        launch.wrong("", f"is not Python: {error}")
        return launch
    found = CALL.search(text)
    assert found is not None
    s = _settings(tree, launch, wanted)
    name, task = found[1] or found[3], found[2] or found[4]
    s.values["(recipe)"], s.lines["(recipe)"] = name, text.count("\n", 0, found.start()) + 1
    sizes = []
    for names in (("num_nodes", "trainer.num_nodes"), ("num_gpus_per_node", "trainer.devices")):
        value = s.number(*names)
        sizes.append(None if value is None else (value, *s.said(*names)))
    launch.cluster(wanted, sizes[0], sizes[1])
    tune.base_model(launch, s, wanted, "(recipe)")
    peft = s.get("peft_scheme")
    lora = task == "finetune" and peft not in (None, "none", False)
    launch.set("training.phase", "lora" if lora else "sft" if task == "finetune" else "pretrain", f"{task}_recipe")
    launch.set("training.framework", wanted.framework or "nemo", "NeMo 2")
    launch.set("training.precision", _precision(text), "the recipe's bf16 unless plugins say otherwise")
    for axis, option in AXES.items():
        value = s.get(STRATEGY + option)
        if isinstance(value, int) and value > 1:
            s.put(f"plan.{axis}", value, STRATEGY + option)
    if not any(STRATEGY + option in s.values for option in AXES.values()):
        if not any(path.startswith("plan.") for path in wanted.fields):
            rule = "has parallel sizes of its own that are not in the file; --set plan.tp=N, plan.pp=N … state them"
            launch.wrong(f"{name}.{task}_recipe", rule, line=s.line("(recipe)"))
    if launch.size("tp") > 1:
        launch.set(
            "plan.sp", s.get(STRATEGY + "sequence_parallel") is not False, *s.said(STRATEGY + "sequence_parallel")
        )
    s.get(STRATEGY + "sequence_parallel")
    launch.set("plan.dp", "auto", "devices / (tp · pp · cp)")
    launch.set("plan.zero", 1, "NeMo's distributed optimizer")
    tune.given_length(launch, s, wanted, "data.seq_length", "model.config.seq_length", "seq_length")
    tune.whole_batch(
        launch,
        s,
        wanted,
        ("data.micro_batch_size", "micro_batch_size"),
        ("data.global_batch_size", "global_batch_size"),
        (1, 0),
    )
    s.rest()
    return launch


def _precision(text: str) -> str:
    if re.search(r"mxfp8", text):
        return "mxfp8"
    return "fp8" if re.search(r"with_fp8|fp8_mixed|fp8\s*=\s*[\"']", text) else "bf16"


def _settings(tree: ast.Module, launch: Launch, wanted: Wanted) -> Settings:
    """`recipe.a.b = value` by dotted name, and keywords of the recipe's call and of data modules."""
    known: dict[str, Any] = {**wanted.env}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            own = node.args
            for argument, default in zip(own.args[len(own.args) - len(own.defaults) :], own.defaults, strict=True):
                known.setdefault(argument.arg, _value(default, known))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            value = _value(node.value, known)
            if value is not None:
                known.setdefault(node.targets[0].id, value)
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.endswith(("_recipe", "DataModule")) or any("DataModule" in ast.unparse(a) for a in node.args):
                prefix = "" if called.endswith("_recipe") else "data."
                for keyword in node.keywords:
                    _keep(values, lines, prefix + str(keyword.arg), keyword.value, known)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            _, dot, name = ast.unparse(node.targets[0]).partition(".")
            if dot:
                _keep(values, lines, name, node.value, known)
    return Settings(launch, values, lines)


def _keep(values: dict[str, Any], lines: dict[str, int], name: str, node: ast.expr, known: dict[str, Any]) -> None:
    value = _value(node, known)
    if value is not None:
        values[name], lines[name] = value, node.lineno


def _value(node: ast.expr, known: dict[str, Any]) -> Any:
    """A written value, or that of a constant."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, str | int | float | bool) else None
