"""The command that starts torchtitan: its configuration by file or by name, devices, and what it overrides.

Names: pytorch/torchtitan `run_train.sh` and `multinode_trainer.slurm`: `--job.config_file FILE` (to 0.2) or
`--module NAME --config NAME` (from 0.3). A file that is not there, and a name, stand for the public recipe of that
name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windtunnel.files.parsing import toml_of
from windtunnel.importers import launched
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.named_files import text_beside
from windtunnel.importers.program_lines import InOrder
from windtunnel.importers.settings import flatten

PROGRAM = InOrder(
    otherwise=re.compile(r"(?:-m\s+|/)torchtitan[./](?:experiments[./]\w+[./])?train(?:\.py)?(?=\s|$)"),
    parts=(re.compile(r"\btrain\.py(?=\s)"),),
    later=re.compile(r"--job\.config_file"),
)
NAMES = ("job.config_file", "job.config-file", "config", "config_file")


def starts(text: str) -> bool:
    """Whether a text starts torchtitan."""
    return "torchtitan" in text and PROGRAM.search(text) is not None and "import " not in text.split("torchtitan", 1)[0]


def read_command(text: str, launch: Launch, wanted: Wanted) -> tuple[Mapping[str, Any], dict[str, int]] | None:
    """Devices of the command, and its settings; None where the configuration is a recipe or is not there."""
    launch.title = "torchtitan command"
    found = launched.find(text, launch, wanted.env, PROGRAM)
    if found is None:
        launch.wrong("", "starts torchtitan nowhere that can be read")
        return None
    started = launched.started_by(found, launch, wanted)
    named = next((str(found.values.pop(name)) for name in NAMES if name in found.values), "")
    named = named or (found.variable("CONFIG_FILE", "CONFIG") or ("", ""))[0]
    found.values.pop("module", None)
    inner = text_beside(launch.file, named) if named.endswith(".toml") else None
    launch.cluster(wanted, started.nodes or (1, "one node starts it", None), started.per_node)
    if inner is not None:
        try:
            table = toml_of(inner)
        except ValueError as error:
            launch.wrong(named, f"is not TOML: {error}", line=found.line)
            return None
        values = {**flatten(table), **found.values}
        return values, found.lines
    _recipe(launch, named, found, wanted)
    return None


def _recipe(launch: Launch, named: str, found: launched.Launched, wanted: Wanted) -> None:
    """Take the public recipe of a name; what the command overrides beside it is listed."""
    from windtunnel.stacks.recipes import recipe_asked

    name = re.sub(r"\W", "_", Path(named).name.removesuffix(".toml"))
    recipe = recipe_asked(name, "torchtitan") if name else None
    if recipe is None:
        rule = "is no file of this folder and no public recipe that is known; --env CONFIG=NAME names another"
        launch.wrong("--config" if named else "", rule, named, found.line)
        return
    launch.set("training.recipe", recipe.name, "the command's configuration", found.line)
    launch.set("training.framework", wanted.framework or "torchtitan", "the program")
    if wanted.model is not None:
        launch.named_model(wanted.model, "--model of windtunnel import")
    elif recipe.model:
        launch.set("model", recipe.model, f"recipe {recipe.name}")
    else:
        launch.wrong("--model", "is required: the recipe's model is not in the catalogue")
    axes = (recipe.plan.get(axis, 1) for axis in ("tp", "pp", "cp"))
    inner = math.prod(size for size in axes if isinstance(size, int))
    rows, each = recipe.training.get("global_batch"), recipe.plan.get("mbs") or 1
    devices = launch.fields.get("cluster.nodes", 1) * launch.fields.get("cluster.devices_per_node", 1)
    if wanted.global_batch is not None:
        launch.set("training.global_batch", wanted.global_batch, "--global-batch of windtunnel import")
    elif rows is None and isinstance(each, int) and devices % inner == 0:
        launch.set(
            "training.global_batch", each * devices // inner, f"micro-batch {each} · {devices // inner} replicas"
        )
    found.settings(launch).rest()
