"""Megatron-LM arguments, from a shell script or a line of flags, as a scenario.

Names and defaults: NVIDIA/Megatron-LM `megatron/training/arguments.py` (core 0.12 to 0.16). A switch that the script
does not give is written as Megatron-LM's default, not as the default of other stacks on the same core. Options without
a field in a scenario are data, `flags/megatron.yaml`.
"""

from __future__ import annotations

import re
import shlex

import yaml

from windtunnel.files.parsing import NotYaml, yaml_nodes
from windtunnel.importers import megatron_model, megatron_plan
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.launch_text import sbatch_options
from windtunnel.importers.launched import distillation
from windtunnel.importers.megatron_flags import Flags
from windtunnel.importers.severity import hanging
from windtunnel.importers.shell import Script, Word, read_script, split

FORMAT = "megatron"
TITLE = "Megatron-LM arguments"
SIGNS = ("--num-layers", "--hidden-size", "--micro-batch-size", "--tensor-model-parallel-size", "--seq-length")
PER_NODE = ("nproc-per-node", "nproc_per_node", "num-gpus", "num_gpus", "gpus-per-node", "ntasks-per-node")
NODES = ("nnodes", "num-nodes", "num_nodes", "nodes")
OTHER_MODELS = re.compile(r"pretrain_(t5|retro|vision\w*|ict|vlm|mamba|hybrid|mimo)\w{0,60}\.py$")
_UNDERSCORED = ("--num_layers", "--hidden_size", "--num_attention_heads", "--micro_batch_size", "--seq_length")
"""Options that no other trainer has together, in the spelling of forks."""
_DISTILLS = re.compile(r"(kd|mos|export-kd-\S+|kd-\S+|load-teacher|\S+-teacher)$")
_ARGUMENTS = re.compile(r"^MODEL_ARGS:[ \t]*$", re.M)
SPELLED_OUT = ("decoder-num-layers", "hybrid-layer-pattern", "hybrid-override-pattern")
"""Options that say what such a program trains."""
CHECKPOINTS = ("TOKENIZER_MODEL", "HF_MODEL_CKPT")
"""Variables in which scripts of Megatron-LM's `examples/post_training` name a checkpoint."""


def detect(text: str) -> bool:
    """Whether a text looks like Megatron-LM arguments."""
    return sum(sign in text for sign in SIGNS) >= 2


def detect_last(text: str) -> bool:
    """Whether a text that is in no other format is arguments of a fork that spells them with underscores."""
    return sum(re.search(rf"{sign}\b", text) is not None for sign in _UNDERSCORED) >= 4


def _table_of_arguments(text: str) -> str:
    """`MODEL_ARGS` of Megatron-LM's functional tests, a table of options, as the command that they become."""
    if not _ARGUMENTS.search(text):
        return text
    try:
        root = yaml_nodes(text)[0]
    except NotYaml:
        return text
    tables = {key.value: value for key, value in root.value} if isinstance(root, yaml.MappingNode) else {}
    table = tables.get("MODEL_ARGS")
    if not isinstance(table, yaml.MappingNode):
        return text
    lines = [""] * (text.count("\n") + 2)
    first = None
    for key, value in table.value:
        said = str(value.value) if isinstance(value, yaml.ScalarNode) else ""
        if said.lower() != "false":
            first = first or key.start_mark.line
            switch = said.lower() == "true" or not said
            lines[key.start_mark.line] = key.value if switch else f"{key.value} {_quoted(said)}"
    last = table.end_mark.line
    begin = first or 0
    joined = [f"{own} \\" for own in lines[begin:last]]
    return "\n".join([*lines[: max(begin - 1, 0)], "torchrun pretrain_gpt.py \\", *joined, ""])


def _quoted(text: str) -> str:
    return text if "$" in text else shlex.quote(text)


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a script; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    text = _table_of_arguments(text)
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
    for name, value, line in sbatch_options(text):
        flags.sbatch(name, value, line)
    nodes, per_node = flags.size(NODES), flags.size(PER_NODE)
    devices = launch.cluster(wanted, nodes, per_node)
    other = next((word for word in words if OTHER_MODELS.search(word.text)), None)
    if other is not None and wanted.model is None and not any(name in flags.given for name in SPELLED_OUT):
        rule = "trains another kind of model than a decoder; --model names it"
        launch.wrong(other.text, rule, line=other.line)
    teacher = next((name for name in flags.given if _DISTILLS.match(name)), None)
    if teacher is not None:
        distillation(launch, wanted, f"--{teacher}", flags.line(teacher))
    if teacher is not None and wanted.goes_without("distillation"):
        flags.set_aside(*(name for name in flags.given if _DISTILLS.match(name)))
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
        return sum(word.text.split("=")[0].replace("_", "-") in SIGNS for word in command)

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
