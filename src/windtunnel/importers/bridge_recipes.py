"""Lines that launch a public recipe of Megatron-Bridge by name, and what they override.

Launchers: `scripts/training/{train.sh,run_recipe.py}` (`--recipe NAME`, `--model STEM --mode TASK`) and
`scripts/performance/{setup_experiment,run_script}.py` (a model's name, a task, a device and a precision).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from windtunnel.files.parsing import whole_number
from windtunnel.importers.shell import Word, read_script, split
from windtunnel.stacks.recipes import Recipe, recipe_asked, recipe_names

FRAMEWORK = "megatron_bridge"
SETTINGS = {
    "seq_length": "model.seq_length",
    "global_batch_size": "train.global_batch_size",
    "micro_batch_size": "train.micro_batch_size",
    "tensor_model_parallel_size": "model.tensor_model_parallel_size",
    "pipeline_model_parallel_size": "model.pipeline_model_parallel_size",
    "context_parallel_size": "model.context_parallel_size",
    "virtual_pipeline_model_parallel_size": "model.virtual_pipeline_model_parallel_size",
    "expert_model_parallel_size": "model.expert_model_parallel_size",
    "expert_tensor_parallel_size": "model.expert_tensor_parallel_size",
    "pipeline_model_parallel_layout": "model.pipeline_model_parallel_layout",
    "recompute_num_layers": "model.recompute_num_layers",
    "recompute_modules": "model.recompute_modules",
    "cuda_graph_impl": "model.cuda_graph_impl",
    "cuda_graph_scope": "model.cuda_graph_scope",
    "use_megatron_fsdp": "ddp.use_megatron_fsdp",
    "moe_a2a_overlap": "comm_overlap.overlap_moe_expert_parallel_comm",
    "moe_flex_dispatcher_backend": "model.moe_flex_dispatcher_backend",
}
"""Option of a launcher → setting that it overrides."""
SHORT = {
    "m": "model_name",
    "mr": "model_recipe_name",
    "model_family_name": "model_name",
    "s": "model_size",
    "g": "gpu",
    "c": "compute_dtype",
    "ng": "num_gpus",
    "gn": "gpus_per_node",
    "cv": "config_variant",
    "gb": "global_batch_size",
    "mb": "micro_batch_size",
    "sl": "seq_length",
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "cp": "context_parallel_size",
    "vp": "virtual_pipeline_model_parallel_size",
    "ep": "expert_model_parallel_size",
    "et": "expert_tensor_parallel_size",
}
_LAUNCHER = re.compile(r"\b(setup_experiment|run_script|run_recipe|launch_with_nemo_run)\.py\b|\btrain\.sh\b")
_CHOICE = re.compile(
    r"(?:^|\s)(--recipe|--model|--model_name|--model_family_name|--model_recipe_name|-mr|-m)[ =]", re.M
)
_OVERRIDE = re.compile(r"^\+*([a-z_]+(?:\.\w+)+)=(.*)$", re.S)
_OPTION = re.compile(r"^-{1,2}([A-Za-z]\w*(?:-\w+)*)(?:=(.*))?$", re.S)
_CONTAINER = re.compile(r"nvcr\.io/nvidia/nemo:(\d\d\.\d\d)")


@dataclass(slots=True, kw_only=True)
class RecipeLine:
    """A line that launches a recipe."""

    options: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    """Option or setting → line of the file."""
    overrides: dict[str, Any] = field(default_factory=dict)
    """Setting → value, options of the launcher among them."""
    version: str = ""
    """Release of the container, where the file names it."""
    unknown: int = 0
    """Line of words that only a run of the script knows; 0: there are none."""
    notes: list[tuple[str, int, str]] = field(default_factory=list)
    """(what, line, why it was not read) of the script."""

    def number(self, *names: str) -> int | None:
        """The first of some options that is a number."""
        found = (self.options.get(name, "") for name in names)
        return next((size for text in found if (size := whole_number(text)) is not None), None)

    def recipe(self, version: str = "") -> tuple[str, Recipe | None]:
        """The name that the line asks for, and the recipe that it stands for in a release."""
        names = self._names()
        found = (recipe_asked(name, FRAMEWORK, version or self.version) for name in names)
        return names[0], next(filter(None, found), None)

    def _names(self) -> list[str]:
        """Names that the launcher would try."""
        said = self.options
        if "recipe" in said:
            return [said["recipe"]]
        task = said.get("task") or said.get("mode") or said.get("domain_task") or "pretrain"
        task = {"lora": "peft", "dora": "peft"}.get(task, task)
        stem = said.get("model_recipe_name") or said.get("model_name") or said.get("model", "")
        if said.get("model_size"):
            stem = f"{stem}_{said['model_size']}"
        library = f"{stem.lower()}_{task}_config"
        device = said.get("gpu", "").lower()
        if not device:
            return [library]
        dtype = said.get("compute_dtype", "bf16").lower() + said.get("fp8_recipe", "").lower()
        variant = said.get("config_variant", "").lower()
        pattern = rf"{re.escape(stem.lower())}_{task}_(\d+)gpu_{device}_{dtype.replace('_', '')}"
        fits = [(match, name) for name in recipe_names(FRAMEWORK) if (match := re.match(pattern + "_", name))]
        plain = [(int(m[1]), name) for m, name in fits if name == f"{m[0]}config"]
        own = [(int(m[1]), name) for m, name in fits if variant and name == f"{m[0]}{variant}_config"]
        wanted = self.number("num_gpus")
        near = sorted(own or plain, key=lambda entry: (entry[0] != wanted, abs(entry[0] - (wanted or 0))))
        return [*(name for _, name in near), library]


def launches_recipe(text: str) -> bool:
    """Whether a text starts a launcher with a recipe."""
    return _LAUNCHER.search(text) is not None and _CHOICE.search(text) is not None and "def " not in text


def read_line(text: str, env: Mapping[str, str]) -> RecipeLine:
    """Options and overrides of the command that launches a recipe."""
    line = RecipeLine()
    if container := _CONTAINER.search(text):
        line.version = container[1]
    script = read_script(text, env, once=True)
    line.notes = script.notes
    started = [_apart(own) for own in script.commands if any(_LAUNCHER.search(word.text) for word in own)]
    for command in started or script.skipped[:]:
        if any(_LAUNCHER.search(word.text) for word in command):
            _read_words(line, command)
    return line


def _apart(command: list[Word]) -> list[Word]:
    """The words of a command; a quoted one that holds the launcher (`bash -c "$CMD"`) comes apart."""
    return [own for word in command for own in (split(word) if _LAUNCHER.search(word.text) else [word])]


def _read_words(line: RecipeLine, words: list[Word]) -> None:
    waiting: str | None = None
    for word in words:
        if word.text.startswith(("$(", "`")) and not waiting:
            line.unknown = line.unknown or word.line
        override = _OVERRIDE.match(word.text)
        option = None if override else _OPTION.match(word.text)
        if option:
            waiting = option[1].replace("-", "_")
            waiting = SHORT.get(waiting, waiting)
            line.options[waiting], line.lines[waiting] = option[2] if option[2] is not None else "true", word.line
            if option[2] is not None:
                waiting = None
        elif override:
            line.overrides[override[1]], line.lines[override[1]] = _value(override[2]), word.line
            waiting = None
        elif waiting:
            line.options[waiting] = word.text
            waiting = None
    for name, setting in SETTINGS.items():
        if name in line.options:
            line.overrides.setdefault(setting, _value(line.options[name]))
            line.lines.setdefault(setting, line.lines[name])


def _value(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
