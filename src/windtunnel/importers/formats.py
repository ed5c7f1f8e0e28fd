"""Which launch formats are known, and which of them a file is in."""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import cast

from windtunnel import importers
from windtunnel.errors import BadInput, Problem
from windtunnel.files import reading
from windtunnel.files.parsing import json_of
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.launch_text import Block, fenced_blocks, is_page, sbatch_options
from windtunnel.importers.manifests import container_text
from windtunnel.importers.named_files import MOST_BYTES, confined_to
from windtunnel.importers.server_logs import log_text
from windtunnel.importers.severity import judge

HF_CONFIG = "hf"
ENGINES = frozenset({"vllm", "sglang", "trtllm", "lmdeploy", "tgi"})
_MOST_BLOCKS = 500
"""Fenced blocks of a page."""
_MOST_SCRIPTS = 100
"""Scripts of a folder that are read, in the order of their names."""
STARTER = "serve.sh"
"""What starts the scripts of a folder that `export` wrote, one a pool."""


@cache
def _readers() -> dict[str, ModuleType]:
    """Format → the module next to this one that reads it: those with `FORMAT`, `detect` and `read`."""
    found = {}
    for entry in pkgutil.iter_modules(importers.__path__):
        if entry.name in ("torch_module", "torch_file", "kineto", "formats"):
            continue  # readers of other things, and this file
        module = importlib.import_module(f"windtunnel.importers.{entry.name}")
        if hasattr(module, "FORMAT"):
            found[module.FORMAT] = module
    return dict(sorted(found.items()))


def names() -> list[str]:
    """Every format that `import` reads."""
    return [HF_CONFIG, *_readers()]


def detect(text: str, file: str) -> str:
    """The format of a file by its content.

    Raises:
        BadInput: no format, or more than one, claims it.
    """
    if text.lstrip().startswith("{") and _is_model_config(text):
        return HF_CONFIG
    started = container_text(text) or log_text(text)
    claims = (_claims(_joined(started)) if started else []) or _claims(text) or _claims(_joined(text))
    if len(claims) > 1 and set(claims) <= ENGINES:  # the engine that a page starts first
        text = started or text
        claims = sorted(claims, key=lambda name: _readers()[name].PROGRAM.place(_joined(text)) or 0)[:1]
    claims = claims or [
        name for name, own in _readers().items() if hasattr(own, "detect_last") and own.detect_last(text)
    ]
    if len(claims) == 1:
        return claims[0]
    which = f"looks like {' and '.join(claims)}" if claims else "is in no format that is recognised"
    raise BadInput(f"{file}: {which}; --format says which of {', '.join(names())} it is")


def _joined(text: str) -> str:
    """A script whose continued lines are one line each: how a list of words in YAML comes out."""
    return re.sub(r"(?<![ \t])[ \t]*\\[ \t]*\n[ \t]*", " ", text)


def _claims(text: str) -> list[str]:
    """Formats that a text is in; one that lies over others (slime over Megatron-LM) takes their claims."""
    found = [name for name, module in _readers().items() if module.detect(text)]
    below = {name for claim in found for name in getattr(_readers()[claim], "OVER", ())}
    return [name for name in found if name not in below]


def read(format: str, text: str, file: str, wanted: Wanted) -> Launch:
    """Read a launch file in a format of `names()` other than Hugging Face's.

    What the command line states with `--set` wins, and a setting that decides and was not read is a problem.
    """
    reader = _readers()[format]
    started = container_text(text) or log_text(text)
    text = started if started and (format in ENGINES or reader.detect(_joined(started))) else text
    wanted = replace(wanted, env={**_slurm(text), **wanted.env})
    launch = cast("Launch", reader.read(text, file, wanted))
    for path, value in wanted.fields.items():
        launch.set(path, value, "--set")
    launch.narrow_precision()
    judge(launch, wanted)
    return launch


_NODES = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")
_PER_NODE = ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE")


def _slurm(text: str) -> dict[str, str]:
    """Variables that Slurm sets for a job, from the lines that ask for it."""
    found: dict[str, str] = {}
    for name, value, _ in sbatch_options(text):
        size = re.search(r"(\d+)$", value.strip("'\""))
        if size is None:
            continue
        if name in ("nodes", "N"):
            found |= dict.fromkeys(_NODES, size[1])
        elif name in ("gres", "gpus-per-node"):
            found |= dict.fromkeys(_PER_NODE, size[1])
        elif name in ("ntasks-per-node", "tasks-per-node"):
            found["SLURM_NTASKS_PER_NODE"] = size[1]
    return found


def page_blocks(text: str, file: str) -> list[Block] | None:
    """The blocks of a Markdown page that start or configure something; None when a text is no page."""
    if not is_page(text, file):
        return None
    found = []
    for number, block in enumerate(fenced_blocks(text), 1):
        if number > _MOST_BLOCKS:
            raise BadInput(Problem("", f"has more than {_MOST_BLOCKS} fenced blocks", file=file))
        try:
            detect(block.text.lstrip("\n"), file)
        except BadInput:
            continue
        found.append(block)
    return found


def launch_folder(folder: Path) -> str:
    """All scripts of a folder that holds launch files and no model; empty for anything else.

    A file `serve.sh` that starts scripts next to it stands for its folder.
    """
    if folder.name == STARTER and reading.is_file(folder):
        text = reading.read_bytes(folder).decode("utf-8", "replace")
        beside = [path.name for path in folder.parent.glob("*.sh") if path.name != STARTER]
        if not any(name in text for name in beside):
            return ""
        folder = folder.parent
    if not folder.is_dir() or (folder / "config.json").exists():
        return ""
    with confined_to(folder):
        names = sorted(path.name for path in folder.glob("*.sh") if path.name != STARTER)
        texts = [reading.read_text(folder / name, most_bytes=MOST_BYTES) for name in names[:_MOST_SCRIPTS]]
    return "\n".join(texts)


def _is_model_config(text: str) -> bool:
    try:
        data = json_of(text)
    except ValueError:
        return False
    known = ("model_type", "architectures", "hidden_size", "n_embd", "num_hidden_layers", "n_layer", "d_model")
    trains = ("pipe_parallel_size", "model_parallel_size", "train_micro_batch_size_per_gpu", "zero_optimization")
    if not isinstance(data, dict) or any(key.replace("-", "_") in trains for key in map(str, data)):
        return False
    return any(key in data for key in known)
