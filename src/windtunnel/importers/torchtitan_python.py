"""Python configurations of torchtitan (0.3 on), as far as they are plain data: nothing of the file is run.

What is read of a function that builds a `Trainer.Config`: its keywords and those of the configurations inside, settings
like `config.training.seq_len = 4096`, the flavor and the arguments of `model_registry`, and other functions of the same
file that it starts from. Values must be written out; what is computed is listed as not read. The result has the names
of the TOML files, so that one reader does for both. Source: `torchtitan/models/*/config_registry.py` of 0.3.0.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from windtunnel.errors import UNSET
from windtunnel.importers.python_values import constants, leave, value_of

if TYPE_CHECKING:
    from windtunnel.importers.launch import Launch, Wanted

SIGNS = ("Trainer.Config", "TrainingConfig(", "torchtitan.models")
_POLICIES = {"FullAC": ("full", None), "SelectiveAC": ("selective", "op"), "MemoryBudgetAC": ("memory_budget", None)}
_CONVERTERS = {"Float8LinearConverter": "quantize.linear.float8", "MXFP8LinearConverter": "quantize.linear.mx"}
_SECTIONS = (
    "training",
    "parallelism",
    "compile",
    "debug",
    "comm",
    "checkpoint",
    "metrics",
    "profiler",
    "validator",
    "lr_scheduler",
    "loss",
    "optimizer",
    "dataloader",
    "tokenizer",
    "override",
)
_PLAIN = ("training", "parallelism", "compile", "debug")
_RENAMED = {"compile.enable_async_tensor_parallel": "parallelism.enable_async_tensor_parallel"}


def looks_like_one(text: str) -> bool:
    """Whether a text is such a configuration."""
    return text.count("import") > 0 and sum(sign in text for sign in SIGNS) >= 2


def read_python(
    text: str, launch: Launch, wanted: Wanted, models: dict[str, dict[str, str]]
) -> tuple[dict[str, Any], dict[str, int]]:
    """Settings by the names of the TOML files, and their lines; problems are added to the launch."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        launch.wrong("", f"is not Python: {error.msg}", line=error.lineno)
        return {}, {}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    builders = [name for name, node in functions.items() if _builds(node)]
    chosen = wanted.env.get("CONFIG") or ("plan" if "plan" in builders else builders[0] if len(builders) == 1 else "")
    if chosen not in builders:
        rule = "no function of this file builds a Trainer.Config"
        if builders:
            rule = f"which configuration is meant? --env CONFIG=… names one of {', '.join(builders)}"
        launch.wrong("CONFIG", rule, chosen or UNSET)
        return {}, {}
    reader = _Reader(launch, functions, _packages(tree), models)
    reader.names = constants(tree.body)
    reader.function(functions[chosen])
    if not any(name.startswith("activation_checkpoint.mode") for name in reader.values):
        reader.policy("SelectiveAC", None)
    return reader.values, {name: line for name, line in reader.lines.items() if line}


def _call(node: ast.AST | None) -> str:
    """The dotted name that a call calls, or nothing."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _builds(function: ast.FunctionDef) -> bool:
    if function.args.args:
        return False  # a helper, or a family of configurations
    if function.returns is not None and ast.unparse(function.returns).endswith("Trainer.Config"):
        return True
    return any(_call(node).endswith("Trainer.Config") for node in ast.walk(function))


def _packages(tree: ast.Module) -> dict[str, str]:
    """Name that a file imports → the module that it comes from."""
    return {
        (name.asname or name.name): node.module or "."
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


class _Reader:
    """Settings of one configuration function."""

    def __init__(
        self,
        launch: Launch,
        functions: dict[str, ast.FunctionDef],
        packages: dict[str, str],
        models: dict[str, dict[str, str]],
    ) -> None:
        self.launch, self.functions, self.packages, self.models = launch, functions, packages, models
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int | None] = {}
        self.registries: dict[str, ast.Call] = {}
        self.names: dict[str, ast.Constant] = {}
        self.name = ""

    def function(self, node: ast.FunctionDef) -> None:
        """Read a function from top to bottom; later settings win."""
        self.name = self.name or node.name
        config = ""
        own = constants(node.body)
        self.names = self.names | own
        for statement in node.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # its docstring
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                target = statement.targets[0].id
                if self._start(statement.value):
                    config = target
                elif _call(statement.value).endswith("model_registry") and isinstance(statement.value, ast.Call):
                    self.registries[target] = statement.value
                elif target not in own:
                    leave(self.launch, statement, "computed in the file")
            elif isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]).startswith(f"{config}."):
                path = ast.unparse(statement.targets[0]).removeprefix(f"{config}.")
                self._field(path, statement.value)
            elif isinstance(statement, ast.Return):
                if statement.value is not None and not isinstance(statement.value, ast.Name):
                    if not self._start(statement.value):
                        leave(self.launch, statement, "not a Trainer.Config that is written out")
            elif not isinstance(statement, ast.Import | ast.ImportFrom | ast.Assert | ast.Pass):
                leave(self.launch, statement, "code, which is not run")

    def _start(self, value: ast.AST) -> bool:
        """What a configuration starts from: one written out, or another function's."""
        called = _call(value)
        if not isinstance(value, ast.Call):
            return False
        if called.endswith("Trainer.Config"):
            for keyword in value.keywords:
                if keyword.arg:
                    self._field(keyword.arg, keyword.value)
            return True
        if called in self.functions and not value.args and not value.keywords:
            self.function(self.functions[called])
            return True
        name = called.rsplit(".", 1)[-1]
        for family, flavors in self.models.items():
            for flavor in flavors:
                if name == f"{family}_{flavor}".lower().replace(".", "_").replace("-", "_"):
                    self._put("model.name", family, value)
                    self._put("model.flavor", flavor, value)
                    leave(self.launch, value, "names the model; its other settings are not in this file")
                    return True
        return False

    def _field(self, path: str, value: ast.expr) -> None:
        """One setting of a configuration: a value, or a configuration inside it."""
        if path == "model_spec":
            registry = value if isinstance(value, ast.Call) else self.registries.get(ast.unparse(value))
            if registry is None or not _call(registry).endswith("model_registry"):
                leave(self.launch, value, "not a call of model_registry")
            else:
                self._registry(registry)
        elif path == "activation_checkpoint":
            self.policy(_call(value).split(".")[0] if isinstance(value, ast.Call) else "none", value)
        elif path in _SECTIONS:
            for name in [name for name in self.values if name.startswith(f"{path}.")]:
                del self.values[name]
            if not isinstance(value, ast.Call):
                leave(self.launch, value, f"{path} is not written out")
            elif path in _PLAIN:
                for keyword in value.keywords:
                    self._field(f"{path}.{keyword.arg}", keyword.value)
            elif path == "optimizer":
                self._put("optimizer.name", "AdamW" if _call(value).endswith("default_adamw") else None, value)
        elif path.split(".", maxsplit=1)[0] in _SECTIONS or "." not in path:
            try:
                self._put(_RENAMED.get(path, path), value_of(value, self.names), value)
            except ValueError:
                if path.split(".", maxsplit=1)[0] in _PLAIN:
                    self.launch.leave(path, ast.unparse(value), value.lineno, "not a value that is written out")

    def policy(self, name: str, node: ast.AST | None) -> None:
        """Activation checkpointing by its class."""
        mode, option = _POLICIES.get(name, ("none", None))
        self._put("activation_checkpoint.mode", mode, node)
        self.values.pop("activation_checkpoint.selective_ac_option", None)
        if option:
            self._put("activation_checkpoint.selective_ac_option", option, node)
        if name == "FullAC":  # calls the checkpoint with early_stop=False
            self._put("activation_checkpoint.early_stop", False, node)

    def _registry(self, call: ast.Call) -> None:
        flavor = call.args[0] if call.args else None
        if isinstance(flavor, ast.Constant):
            self._put("model.flavor", flavor.value, call)
        else:
            leave(self.launch, call, "its flavor is not written out")
        module = self.packages.get("model_registry", ".")
        family = module.rsplit(".", 1)[-1] if module.startswith("torchtitan") else None
        likely = [name for name in sorted(self.models, reverse=True) if self.name.startswith(name)]
        family = family or next(iter(likely), None)
        if family:
            self._put("model.name", family, call)
        for keyword in call.keywords:
            if keyword.arg == "moe_comm_backend" and isinstance(keyword.value, ast.Constant):
                self._put("parallelism.expert_parallel_comm_backend", keyword.value.value, call)
            elif keyword.arg == "converters" and isinstance(keyword.value, ast.List):
                self._converters(keyword.value)

    def _converters(self, items: ast.List) -> None:
        kinds = []
        for item in items.elts:
            name = _call(item).split(".")[0]
            kinds.append(_CONVERTERS.get(name, name))
            if name == "Float8LinearConverter" and isinstance(item, ast.Call):
                given = {k.arg: k.value.value for k in item.keywords if isinstance(k.value, ast.Constant)}
                self._put("quantize.linear.float8.recipe_name", given.get("recipe_name", "rowwise"), item)
        self._put("model.converters", kinds, items)

    def _put(self, name: str, value: Any, node: ast.AST | None) -> None:
        if value is not None:
            self.values[name], self.lines[name] = value, getattr(node, "lineno", None)
