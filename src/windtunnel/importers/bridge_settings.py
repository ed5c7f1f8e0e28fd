"""Settings of Megatron-Bridge's `ConfigContainer` out of the three places where they are written; nothing is run.

Python: assignments `cfg.section.field = value` of one function, the name in `AutoBridge.from_hf_pretrained("…")`, and
`CommOverlapConfig(…)`. YAML: sections of the container. A command line: words `section.field=value`, as the training
scripts take them. Sources: Megatron-Bridge `docs/training/config-container-overview.md`, `recipes/`, and
`scripts/training/` of 0.6.2.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import yaml

from windtunnel.errors import UNSET
from windtunnel.files.parsing import NotYaml, yaml_nodes, yaml_of
from windtunnel.importers.python_values import constants, leave, value_of
from windtunnel.importers.shell import read_script, split

if TYPE_CHECKING:
    from windtunnel.importers.launch import Launch, Wanted

SECTIONS = (
    "model",
    "train",
    "ddp",
    "optimizer",
    "scheduler",
    "dataset",
    "logger",
    "tokenizer",
    "checkpoint",
    "dist",
    "rng",
    "profiling",
    "peft",
    "comm_overlap",
    "mixed_precision",
    "validation",
    "rerun_state_machine",
    "inprocess_restart",
    "straggler",
    "nvrx_straggler",
    "ft",
)
_READ = ("model", "train", "ddp", "optimizer", "dataset", "dist", "comm_overlap", "mixed_precision", "peft")
"""Sections that a step depends on."""
_SETTING = re.compile(rf"^\+*((?:{'|'.join(SECTIONS)})(?:\.\w+)*)=(.*)$")
Found = tuple[dict[str, Any], dict[str, int]]


def kind(text: str) -> str | None:
    """`python`, `yaml` or `command`, whichever a text is; None where it is none of them."""
    if "megatron.bridge" in text and re.search(r"^[ \t]*\w+\.(model|train)\.\w+ = ", text, re.M):
        return "python"
    if re.search(r"(?<![\w.])(model|train)\.\w+=", text) and not re.search(r"^[ \t]*def ", text, re.M):
        return "command"
    try:
        data = yaml_of(text)
    except NotYaml:
        return None
    sections = [data.get(name) for name in ("model", "train")] if isinstance(data, dict) else []
    fields = {key for section in sections if isinstance(section, dict) for key in section}
    signs = {"tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size", "global_batch_size"}
    return "yaml" if len(sections) == 2 and isinstance(sections[1], dict) and fields & signs else None


def from_yaml(text: str) -> Found:
    """Sections of a YAML file."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}

    def walk(node: yaml.Node | None, prefix: str, data: Any) -> None:
        if not isinstance(node, yaml.MappingNode) or not isinstance(data, dict):
            return
        for key, value in node.value:
            name, inner = f"{prefix}{key.value}", data.get(key.value)
            if isinstance(inner, dict):
                walk(value, f"{name}.", inner)
            elif inner is not None:
                values[name], lines[name] = inner, key.start_mark.line + 1

    walk(yaml_nodes(text)[0], "", yaml_of(text))
    return values, lines


def from_command(text: str, launch: Launch, wanted: Wanted) -> Found:
    """Words `section.field=value` of a shell script."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for command in read_script(text, wanted.env).commands:
        for word in (part for whole in command for part in (split(whole) if " " in whole.text else [whole])):
            found = _SETTING.match(word.text)
            size = re.match(r"--(nnodes|nproc[-_]per[-_]node)=(\d{1,15})$", word.text)
            if size:
                values[f"({size.group(1).replace('_', '-')})"] = int(size.group(2))
            elif found and "$" in found.group(2):
                launch.leave(found.group(1), found.group(2), word.line, "not set in the script; --env sets it")
            elif found:
                values[found.group(1)], lines[found.group(1)] = _value(found.group(2)), word.line
    return values, lines


def _value(text: str) -> Any:
    """A word as YAML reads it, as text where it is none."""
    try:
        return yaml_of(text)
    except NotYaml:
        return text


def from_python(text: str, launch: Launch, wanted: Wanted) -> Found:
    """Assignments of one function."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        launch.wrong("", f"is not Python: {error.msg}", line=error.lineno)
        return {}, {}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and _variable(node)}
    default = "apply" if "apply" in functions else next(iter(functions), "") if len(functions) == 1 else ""
    chosen = wanted.env.get("CONFIG") or default
    if chosen not in functions:
        rule = f"which recipe is meant? --env CONFIG=… names one of {', '.join(functions)}"
        launch.wrong("CONFIG", rule if functions else "no function of this file sets a configuration", chosen or UNSET)
        return {}, {}
    reader = _Assignments(launch, functions, constants(tree.body))
    reader.function(functions[chosen])
    return reader.values, reader.lines


def _variable(function: ast.FunctionDef) -> str | None:
    """The variable whose sections a function sets."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            parts = ast.unparse(node.targets[0]).split(".")
            if len(parts) >= 2 and parts[1] in SECTIONS:
                return parts[0]
    return None


class _Assignments:
    """What a function sets, from top to bottom."""

    def __init__(self, launch: Launch, functions: dict[str, ast.FunctionDef], names: dict[str, ast.Constant]) -> None:
        self.launch, self.functions, self.names = launch, functions, names
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int] = {}

    def function(self, node: ast.FunctionDef) -> None:
        """Read one function; code that is not a plain setting is listed."""
        variable = _variable(node)
        own = constants(node.body)
        self.names = self.names | own
        for statement in node.body:
            if isinstance(statement, ast.Assign):
                target = ast.unparse(statement.targets[0])
                if target.startswith(f"{variable}."):
                    self._set(target.removeprefix(f"{variable}."), statement.value)
                elif target == variable and isinstance(statement.value, ast.Call):
                    called = ast.unparse(statement.value.func)
                    if called in self.functions:
                        self.function(self.functions[called])
                    else:
                        why = "starts from settings that are not in this file; the stack's defaults stand for them"
                        leave(self.launch, statement.value, why)
                elif target not in own:
                    leave(self.launch, statement, "computed in the file")
            elif isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try):
                leave(self.launch, statement, "code, which is not run")

    def _set(self, path: str, value: ast.expr) -> None:
        if isinstance(value, ast.Call) and (path == "model" or path.split(".", maxsplit=1)[0] in ("comm_overlap",)):
            for call in [node for node in ast.walk(value) if isinstance(node, ast.Call)]:
                name = call.args[0] if call.args else None
                if isinstance(name, ast.Name):
                    name = self.names.get(name.id, name)
                if ast.unparse(call.func).endswith("from_hf_pretrained") and isinstance(name, ast.Constant):
                    self._put("(model)", name.value, value)
            for keyword in value.keywords:
                if keyword.arg and path != "model":
                    self._set(f"{path}.{keyword.arg}", keyword.value)
            return
        try:
            self._put(path, value_of(value, self.names), value)
        except ValueError:
            text = ast.unparse(value)
            if re.fullmatch(r"(torch|AttnBackend)\.\w+", text):
                self._put(path, text.split(".")[1], value)
            elif re.fullmatch(r"\w+\(\)", text):
                self._put(path, text[:-2], value)  # bf16_mixed()
            elif path.split(".", maxsplit=1)[0] in _READ:
                self.launch.leave(path, text[:57], value.lineno, "not a value that is written out")

    def _put(self, path: str, value: Any, node: ast.expr) -> None:
        if value is None:
            self.values.pop(path, None)
        else:
            self.values[path], self.lines[path] = value, node.lineno
