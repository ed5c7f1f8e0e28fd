"""A file of Primus, whose settings are Megatron-LM's options or MaxText's, as a scenario.

Names and defaults: AMD-AGI/Primus `primus/configs/modules/megatron/trainer_base.yaml` (commit 05b350b33139) and
`pre_trainer.yaml` (44a21d15f777): bf16 and the distributed optimizer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from windtunnel.files.parsing import whole_number
from windtunnel.importers import maxtext, megatron_model, megatron_plan
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.megatron_flags import Flags
from windtunnel.importers.settings import Settings
from windtunnel.importers.shell import Word
from windtunnel.importers.training_tables import settings_of, table_of

FORMAT = "primus"
TITLE = "Primus configuration"
OVER = ("megatron_bridge", "trl", "axolotl", "torchtune", "flagscale")
MODULE = re.compile(r"modules\.(\w*trainer)\.")
DEFAULTS = {
    "bf16": True,
    "use_distributed_optimizer": True,
    "use_flash_attn": True,
    "micro_batch_size": 2,
    "global_batch_size": 16,
    "seq_length": 1024,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
}
"""What Primus sets where a file does not."""


def detect(text: str) -> bool:
    """Whether a text is a file of Primus: a trainer among its modules, with overrides."""
    modules = table_of(text).get("modules") if "overrides" in text else None
    return isinstance(modules, Mapping) and any(
        isinstance(own, Mapping) and {"framework", "overrides"} <= own.keys() for own in modules.values()
    )


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = settings_of(text, launch)
    module = next((found[1] for name in s.values if (found := MODULE.match(name))), "pre_trainer")
    p = f"modules.{module}."
    framework = str(s.get(p + "framework"))
    name = Path(re.sub(r"\$\{\w+:([^}]*)\}", r"\1", str(s.get(p + "model") or ""))).stem
    over = {
        key.removeprefix(p + "overrides."): value for key, value in s.values.items() if key.startswith(p + "overrides.")
    }
    lines = {key: s.line(p + "overrides." + key) or 0 for key in over}
    if framework == "maxtext":
        inner = Settings(launch, {**over, "model_name": name}, lines)
        devices = launch.cluster(wanted, None, None)
        launch.format = maxtext.FORMAT  # for its own lists of settings
        maxtext.fill(launch, inner, wanted, devices, 1)
        inner.rest()
        launch.format = FORMAT
        return launch
    if framework != "megatron":
        launch.wrong(p + "framework", "must be megatron or maxtext; other back ends of Primus are not read", framework)
        return launch
    stated = {key: _environment(value) for key, value in over.items()}
    megatron(launch, stated, lines, wanted, name, DEFAULTS)
    return launch


def megatron(
    launch: Launch,
    settings: Mapping[str, Any],
    lines: Mapping[str, int],
    wanted: Wanted,
    name: str,
    defaults: Mapping[str, Any],
) -> None:
    """Fill in a launch from Megatron-LM's options by the names of a table.

    Args:
        launch: what is filled.
        settings: options with underscores for hyphens; false and null leave one off.
        lines: lines of the settings.
        wanted: what the command line says.
        name: the model that the table names; empty: spelled out.
        defaults: what the tool sets where the table does not.
    """
    words = []
    for key, value in {**defaults, **settings}.items():
        if value is None or value is False or value in ("null", ""):
            continue
        option = "--" + str(key).rsplit(".", 1)[-1].replace("_", "-")
        words.append(Word(option, lines.get(key, 0)))
        parts = value if isinstance(value, list) else [] if value is True else [value]
        words += [Word(str(part), lines.get(key, 0)) for part in parts]
    flags = Flags(launch, words)
    if "fp16" in flags.given:
        flags.given.pop("bf16", None)
    if (kind := flags.given.pop("fp8", None)) and kind[0]:
        flags.given["fp8-format"] = kind
    devices = launch.cluster(wanted, flags.size(("nnodes",)), flags.size(("nproc-per-node",)))
    if name and wanted.model is None and "num-layers" not in flags.given:
        wanted = replace(wanted, model=name)
    megatron_model.read_model(launch, flags, wanted)
    if launch.fields.get("model") is not None and name:
        launch.origin["model"] = (f"model: {name}", None)
    megatron_plan.read_training(launch, flags, wanted)
    megatron_plan.read_plan(launch, flags, wanted, devices)
    if (experts := flags.number("expert-model-parallel-size") or 1) > 1 and "plan.ep" not in launch.fields:
        launch.set("plan.ep", experts, "expert_model_parallel_size", flags.line("expert-model-parallel-size"))
    flags.rest()


def _environment(value: Any) -> Any:
    """The default of `${NAME:value}`."""
    found = re.fullmatch(r"\$\{\w+:(.*)\}", value) if isinstance(value, str) else None
    if found is None:
        return value
    text = found[1].strip("\"'")
    return {"true": True, "false": False, "null": None, "": None}.get(
        text, text if (number := whole_number(text)) is None else number
    )
