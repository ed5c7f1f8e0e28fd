"""Megatron-LM arguments, from a shell script or a line of flags, as a scenario.

Names and defaults: NVIDIA/Megatron-LM `megatron/training/arguments.py` (core 0.12 to 0.16). A switch that the script
does not give is written as Megatron-LM's default, not as the default of other stacks on the same core. Options without
a field in a scenario are data, `flags/megatron.yaml`.
"""

from __future__ import annotations

import re

from windtunnel.importers import megatron_model, megatron_plan
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.megatron_flags import Flags
from windtunnel.importers.severity import hanging
from windtunnel.importers.shell import Script, Word, read_script, split

FORMAT = "megatron"
TITLE = "Megatron-LM arguments"
SIGNS = ("--num-layers", "--hidden-size", "--micro-batch-size", "--tensor-model-parallel-size", "--seq-length")
PER_NODE = ("nproc-per-node", "nproc_per_node", "num-gpus", "num_gpus", "gpus-per-node", "ntasks-per-node")
NODES = ("nnodes", "num-nodes", "num_nodes", "nodes")
OTHER_MODELS = re.compile(r"pretrain_(t5|retro|vision\w*|ict|vlm|mamba|hybrid|mimo)\w{0,60}\.py$")
SPELLED_OUT = ("decoder-num-layers", "hybrid-layer-pattern", "hybrid-override-pattern")
"""Options that say what such a program trains."""
CHECKPOINTS = ("TOKENIZER_MODEL", "HF_MODEL_CKPT")
"""Variables in which scripts of Megatron-LM's `examples/post_training` name a checkpoint."""
_SBATCH = re.compile(r"^#SBATCH[ \t]+(?:--?)([\w-]+)[= ][ \t]*(\S+)", re.MULTILINE)


def detect(text: str) -> bool:
    """Whether a text looks like Megatron-LM arguments."""
    return sum(sign in text for sign in SIGNS) >= 2


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a script; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    script = read_script(text, wanted.env, file=file)
    for what, line, why in script.notes:
        launch.leave(what, "", line, why)
    hanging(script, launch)
    words = _launch_words(script, launch)
    flags = Flags(launch, words)
    flags.checkpoints = _checkpoints(script)
    for name, line in script.unset:
        if name in script.variables:  # it is given a value where it is not set
            why = f"line {line} asks whether it is set, and the script does not set it before; --env {name}=… does"
            launch.assumed.append((f"${name}", "not set", why))
    for name, value, line in script.defaults:
        if f"${name}" not in ("$MASTER_ADDR", "$MASTER_PORT", "$NODE_RANK", "$RANK") and value.isdigit():
            launch.assumed.append((f"${name}", value, f"not set in the script; its own default, line {line}"))
    for match in _SBATCH.finditer(text):
        flags.sbatch(match.group(1), match.group(2), text.count("\n", 0, match.start()) + 1)
    nodes, per_node = flags.size(NODES), flags.size(PER_NODE)
    devices = launch.cluster(wanted, nodes, per_node)
    other = next((word for word in words if OTHER_MODELS.search(word.text)), None)
    if other is not None and wanted.model is None and not any(name in flags.given for name in SPELLED_OUT):
        rule = "trains another kind of model than a decoder; --model names it"
        launch.wrong(other.text, rule, line=other.line)
    megatron_model.read_model(launch, flags, wanted)
    megatron_plan.read_training(launch, flags, wanted)
    megatron_plan.read_plan(launch, flags, wanted, devices)
    flags.rest()
    return launch


def _checkpoints(script: Script) -> list[tuple[str, str]]:
    """(checkpoint, variable) of variables in which a script names one."""
    named = [(" ".join(word.text for word in script.variables.get(name, [])), name) for name in CHECKPOINTS]
    return [(checkpoint, name) for checkpoint, name in named if checkpoint and "$" not in checkpoint]


def _launch_words(script: Script, launch: Launch) -> list[Word]:
    """The words of the command that starts the training, or of everything that looks like lists of flags."""

    def flat(command: list[Word]) -> list[Word]:
        return [w for word in command for w in (split(word) if re.search(r"\s", word.text) else [word])]

    def score(command: list[Word]) -> int:
        return sum(word.text.split("=")[0] in SIGNS for word in command)

    commands = [flat(command) for command in script.commands]
    best = max(commands, key=score, default=[])
    if score(best):
        return best
    lists = [flat(words) for words in script.variables.values() if any(w.text.lstrip().startswith("--") for w in words)]
    if lists:
        launch.assumed.append(
            ("(launch)", "all lists", "no launch command found; every list of flags set here is read")
        )
    return [word for words in lists for word in words]
