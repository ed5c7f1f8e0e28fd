"""The two forms of torchtitan's configurations: TOML up to 0.2, a function that returns `Trainer.Config` from 0.3.

Writers set fields by the names of 0.2; the Python form puts those that moved in their new place and reports those that
are gone. Sources: `torchtitan/config/{configs,manager}.py`, `torchtitan/trainer.py`, `torchtitan/models/*/__init__.py`
and `torchtitan/models/*/config_registry.py` of 0.3.0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windtunnel.exporters.target import Draft, OptionList


class TomlConfig:
    """Fields by dotted name; one that the version does not have is reported, not written."""

    file = "torchtitan.toml"
    program = '-m torchtitan.train --job.config_file "$HERE/torchtitan.toml"'
    last_module = "output"

    def __init__(self, known: OptionList, draft: Draft) -> None:
        self.known, self.draft = known, draft
        self.tables: dict[str, dict[str, Any]] = {}

    def set(self, name: str, value: Any) -> None:
        """Write a field, or say that this version lacks it."""
        refusal = self.known.refuses(name, value)
        if refusal is not None:
            self.draft.lacks(refusal)
            return
        table, _, field = name.rpartition(".")
        self.tables.setdefault(table, {})[field] = value

    def text(self) -> str:
        """The document. Values are integers, truth values, words and lists of words: their JSON form is TOML."""
        out = []
        for table, fields in self.tables.items():
            out.append(f"[{table}]")
            out += [f"{field} = {_value(value)}" for field, value in fields.items()]
            out.append("")
        return "\n".join(out)


def _value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + "".join(f"  {json.dumps(part)},\n" for part in value) + "]"
    return json.dumps(value)


_CLASSES = {
    "training": "TrainingConfig",
    "parallelism": "ParallelismConfig",
    "compile": "CompileConfig",
    "debug": "DebugConfig",
}
_MOVED = {"parallelism.enable_async_tensor_parallel": "compile.enable_async_tensor_parallel"}
_IN_CODE = (
    "model.",
    "quantize.",
    "activation_checkpoint.",
    "optimizer.name",
    "training.dataset",
    "parallelism.expert_parallel_comm_backend",
    "parallelism.expert_tensor_parallel_degree",
    "parallelism.context_parallel_rotate_method",
)
"""What 0.3 sets by classes and arguments and not by fields of this name."""


class PythonConfig(TomlConfig):
    """A function `plan` in the place of tables."""

    file = "plan_config.py"
    program = "-m torchtitan.train --module plan_config --config plan"
    last_module = "lm_head"

    def __init__(self, known: OptionList, draft: Draft) -> None:
        super().__init__(known, draft)
        self.code: dict[str, Any] = {}

    def set(self, name: str, value: Any) -> None:
        """Write a field in its place of 0.3, or say that this version lacks it."""
        name = _MOVED.get(name, name)
        if name.startswith(_IN_CODE):
            self.code[name] = value
        else:
            super().set(name, value)

    def text(self) -> str:
        """The module."""
        code, draft = self.code, self.draft
        if code.get("parallelism.context_parallel_rotate_method") == "alltoall":
            draft.lacks("context parallelism by ring: keys and values are gathered (all_gather)")
        if code.get("parallelism.expert_tensor_parallel_degree", 1) > 1:
            draft.lacks("etp above 1: experts are not cut over the tensor axis")
        imports = {
            "torchtitan.components.loss": ["CrossEntropyLoss"],
            "torchtitan.components.optimizer": ["default_adamw"],
            "torchtitan.config": [_CLASSES[table] for table in self.tables],
            "torchtitan.hf_datasets.text_datasets": ["HuggingFaceTextDataLoader"],
            "torchtitan.models.common.config_utils": ["decoder_vocab_size"],
            f"torchtitan.models.{code['model.name']}": ["model_registry"],
            "torchtitan.trainer": ["Trainer"],
        }
        policy = self._recomputation(imports)
        registry = self._registry(imports)
        head = [
            f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(imports.items()) if names
        ]
        fields = [
            "model_spec=model_spec",
            "loss=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec))",
            f"hf_assets_path={json.dumps(code['model.hf_assets_path'])}",
            "optimizer=default_adamw(lr=3e-4)",
            f"dataloader=HuggingFaceTextDataLoader.Config(dataset={json.dumps(code['training.dataset'])})",
            f"activation_checkpoint={policy}",
        ]
        for table, values in self.tables.items():
            inside = "".join(f"            {field}={_python(value)},\n" for field, value in values.items())
            fields.append(f"{table}={_CLASSES[table]}(\n{inside}        )")
        body = "".join(f"        {field},\n" for field in fields)
        return (
            "\n".join(head) + "\n\n\ndef plan() -> Trainer.Config:\n"
            f'    """The configuration of one plan."""\n    model_spec = {registry}\n'
            f"    return Trainer.Config(\n{body}    )\n"
        )

    def _recomputation(self, imports: dict[str, list[str]]) -> str:
        """The class of the activation checkpointing policy."""
        mode = self.code.get("activation_checkpoint.mode", "none")
        option = self.code.get("activation_checkpoint.selective_ac_option")
        if mode == "none":
            return "None"
        name = "SelectiveAC" if mode == "selective" and option == "op" else "FullAC"
        if mode == "selective" and option != "op":
            self.draft.lacks(f"recompute of every {option}th layer: all recompute")
        early = self.code.get("activation_checkpoint.early_stop")
        if early and name == "FullAC":
            self.draft.lacks("recompute.early_stop true: blocks are recomputed to their end")
        imports["torchtitan.distributed.activation_checkpoint"] = [name]
        return f"{name}.Config()"

    def _registry(self, imports: dict[str, list[str]]) -> str:
        """The call that builds the model with its expert exchange and its low precision."""
        code = self.code
        words = [json.dumps(code["model.flavor"])]
        backend = code.get("parallelism.expert_parallel_comm_backend")
        if backend is not None:
            words.append(f"moe_comm_backend={json.dumps(backend)}")
        compiled = bool(self.tables.get("compile", {}).get("enable"))
        converters = code.get("model.converters", [])
        if "quantize.linear.float8" in converters:
            if code.get("quantize.linear.float8.recipe_name") != "rowwise":
                self.draft.lacks("precision fp8 by tensor: written by row (rowwise)")
            if code.get("quantize.linear.float8.enable_fsdp_float8_all_gather"):
                self.draft.lacks("parameters gathered in float8")
            imports["torchtitan.components.quantization"] = ["Float8LinearConverter"]
            given = f'recipe_name="rowwise", filter_fqns=["lm_head"], model_compile_enabled={compiled}'
            words.append(f"converters=[Float8LinearConverter.Config({given})]")
        elif "quantize.linear.mx" in converters:
            imports["torchtitan.components.quantization"] = ["MXFP8LinearConverter"]
            given = f'fqns=["attention", "feed_forward"], model_compile_enabled={compiled}'
            words.append(f"converters=[MXFP8LinearConverter.Config({given})]")
        return f"model_registry({', '.join(words)})"


def _python(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + "".join(f"                {json.dumps(part)},\n" for part in value) + "            ]"
    return repr(value) if isinstance(value, bool | int | float | None) else json.dumps(value)
