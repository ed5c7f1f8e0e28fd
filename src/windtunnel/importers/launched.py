"""The command of a launch script that starts a program: its options, its overrides, and how many devices it starts on.

One mechanism for shell scripts, pages, YAML and containers: variables, here-documents in variables, arrays, sourced
files, `bash -c`, Slurm's and Ray's wrappers, commands under conditions that cannot be decided. Nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from windtunnel.files.parsing import whole_number
from windtunnel.importers import accelerate
from windtunnel.importers import fine_tuning as tune
from windtunnel.importers.inner_script import MOST_HANDED_OVER, inner_script
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.launch_text import tidy
from windtunnel.importers.program_lines import Program
from windtunnel.importers.settings import Settings
from windtunnel.importers.severity import hanging
from windtunnel.importers.shell import Script, Word, read_script, split

_OVERRIDE = re.compile(r"[+~]*([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
_STARTERS = re.compile(r"(^|/)(torchrun|deepspeed|accelerate|srun|mpirun|mpiexec|horovodrun|colossalai)$")
_REST_OF_SHELL = re.compile(r"\$[@*]|\d?[<>]+.*|&|\|")
PER_NODE = ("NPROC_PER_NODE", "GPUS_PER_NODE", "NUM_GPUS_PER_NODE", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE")
NODES = ("NNODES", "NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")


@dataclass(slots=True, kw_only=True)
class Launched:
    """The start of a program."""

    program: str = ""
    line: int | None = None
    launcher: list[tuple[str, int]] = field(default_factory=list)
    """Words in front of the program."""
    values: dict[str, Any] = field(default_factory=dict)
    """Options (`--name value`, hyphens as underscores) and overrides (`a.b=value`)."""
    lines: dict[str, int] = field(default_factory=dict)
    rest: list[tuple[str, int]] = field(default_factory=list)
    """Words that are neither."""
    script: Script = field(default_factory=Script)

    def variable(self, *names: str) -> tuple[str, str] | None:
        """(value, name) of the first of these variables that the script sets to something known."""
        for name in names:
            value = " ".join(word.text for word in self.script.variables.get(name, []))
            if value and "$" not in value:
                return value, name
        return None

    def settings(self, launch: Launch) -> Settings:
        """The options as settings of a launch file."""
        return Settings(launch, self.values, self.lines)


def find(text: str, launch: Launch, env: Mapping[str, str], program: Program) -> Launched | None:
    """The first command that starts a program; None where none does.

    Args:
        text: the script.
        launch: takes notes of what cannot be known without running the script.
        env: values of variables that come from outside.
        program: meets the words of the command, joined by blanks, up to the end of the program's name.
    """
    script = read_script(tidy(text), env, file=launch.file)
    start = _search(script, program, env, launch.file, iter(range(MOST_HANDED_OVER)))
    if start is None:
        return None
    words = start.words
    for what, line, why in script.notes if start.decided else ():
        launch.leave(what, "", line, why)
    hanging(script, launch)
    for name, line in script.missing:
        launch.leave(f"source {name}", "", line, "is not below this file's folder: what it sets is not read")
    joined = " ".join(word.text for word in words)
    match = program.search(joined)
    assert match is not None
    begin, length = 0, 0
    while begin < len(words) and length < match.end():
        length += len(words[begin].text) + 1
        begin += 1
    own = words[max(begin - 1, 0)]
    found = Launched(program=own.text, line=own.line, script=start.script)
    found.launcher = [(word.text, word.line) for word in words[: max(begin - 1, 0)]]
    found.values, found.lines, found.rest = options_of([(word.text, word.line) for word in words[begin:]])
    for name, value, line in script.defaults:
        if value.isdigit() and any(str(own) == value or own == whole_number(value) for own in found.values.values()):
            launch.assumed.append((f"${name}", value, f"not set in the script; its own default, line {line}"))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The first command that starts a program."""

    words: list[Word]
    decided: bool
    """Whether it runs whatever conditions before it say."""
    script: Script
    """That the command is in, with the variables of the scripts around it."""


def _search(script: Script, program: Program, env: Mapping[str, str], file: str, left: Iterator[int]) -> _Start | None:
    """The first command that starts a program, in a script or in what it hands to a shell."""
    for commands, decided in ((script.commands, True), (script.skipped, False)):
        for command in commands:
            inner = inner_script(command)
            if inner is not None and program.search(inner.text) and next(left, None) is not None:
                known = {name: " ".join(word.text for word in own) for name, own in script.variables.items()}
                below = read_script(inner.text, {**known, **env}, file=file)
                start = _search(below, program, env, file, left)
                if start is not None:
                    moved = [Word(word.text, word.line + inner.line - 1) for word in start.words]
                    below.variables = {**script.variables, **below.variables}
                    return replace(start, words=moved, decided=decided)
            words = _flat(command, program)
            if program.search(" ".join(word.text for word in words)):
                return _Start(words=words, decided=decided, script=script)
    for value in script.variables.values():  # what a script keeps in a variable to start later
        words = [inner for word in value for inner in split(word)] if len(value) == 1 else list(value)
        if program.search(" ".join(word.text for word in words)):
            return _Start(words=words, decided=True, script=script)
    return None


def _flat(command: Sequence[Word], program: Program) -> list[Word]:
    """The words of a command; a quoted one that holds the program comes apart."""
    out: list[Word] = []
    for word in command:
        apart = re.search(r"\s", word.text) and program.search(word.text) and inner_script(command) is None
        out += split(word) if apart else [word]
    return out


def options_of(
    words: Sequence[tuple[str, int]],
) -> tuple[dict[str, Any], dict[str, int], list[tuple[str, int]]]:
    """Values and lines of `--name value …` options and `a.b=value` overrides, and the words that are neither."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    rest: list[tuple[str, int]] = []
    name: str | None = None
    for text, line in words:
        override = _OVERRIDE.fullmatch(text)
        if _REST_OF_SHELL.fullmatch(text):
            name = None
        elif re.match(r"--?[A-Za-z]", text):
            head, equals, value = text.lstrip("-").partition("=")
            name = head.replace("-", "_")
            values[name], lines[name] = (typed(value) if equals else True), line
            name = None if equals else name
        elif override is not None and (name is None or "." in override[1] or values[name] is not True):
            values[override[1]], lines[override[1]], name = typed(override[2]), line, None
        elif name is None:
            rest.append((text, line))
        elif values[name] is True:
            values[name] = typed(text)
        else:
            values[name] = [*(values[name] if isinstance(values[name], list) else [values[name]]), typed(text)]
    return values, lines, rest


def typed(text: str) -> Any:
    """A word as YAML would have it."""
    plain = text.strip().strip("'\"")
    if plain.startswith("[") and plain.endswith("]"):
        return [typed(part) for part in plain[1:-1].split(",") if part.strip()]
    if re.fullmatch(r"\d{1,3}(_\d{3})+", plain):
        return int(plain.replace("_", ""))
    return tune.typed(plain)


def started_by(found: Launched, launch: Launch, wanted: Wanted) -> accelerate.Started:
    """What the launcher and variables say of processes."""
    out = accelerate.started(found.launcher, launch)
    flags, lines, _ = options_of(found.launcher)
    include = str(flags.get("include", ""))
    if out.per_node is None and re.fullmatch(r"[\w.]+:\d+(,\d+)*", include):
        out.per_node = (include.count(",") + 1, "--include", lines["include"])
    for names, attribute in ((PER_NODE, "per_node"), (NODES, "nodes")):
        if getattr(out, attribute) is not None:
            continue
        outside = next(((wanted.env[name], name) for name in names if name in wanted.env), None)
        value = found.variable(*names) or outside
        if value is not None and (whole_number(value[0]) or 0) > 0:
            setattr(out, attribute, (whole_number(value[0]), f"${value[1]}", None))
    if out.nodes is None and isinstance(flags.get("num_nodes"), int):
        out.nodes = (flags["num_nodes"], "--num_nodes", lines["num_nodes"])
    visible = found.variable("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    if out.per_node is None and visible is not None and re.fullmatch(r"\d+(,\s*\d+)*,?", visible[0]):
        out.per_node = (len(re.findall(r"\d+", visible[0])), f"${visible[1]}", None)
    return out


def cluster(launch: Launch, wanted: Wanted, found: Launched, started: accelerate.Started) -> int | None:
    """Nodes and devices as the launcher says; a launcher that takes all devices of its machine leaves them to be asked.

    Returns:
        The number of devices, where it is known.
    """
    many = any(_STARTERS.search(word) for word, _ in found.launcher) or re.search(r"swift$|megatron$", found.program)
    per_node = started.per_node
    nodes = started.nodes
    if nodes is None and wanted.nodes is None:
        launch.assumed.append(("cluster.nodes", "1", "not in the file; --nodes says otherwise"))
    if per_node is None and wanted.devices_per_node is None and many:
        why = "is required: the file starts a process a device and does not say how many devices a node has"
        launch.wrong("--devices-per-node", why)
    elif per_node is None and wanted.devices_per_node is None:
        per_node = (1, "the file starts no second device", None)
        launch.assumed.append(("cluster.devices_per_node", "1", "not in the file; --devices-per-node says otherwise"))
    if wanted.device is not None and launch.problems:  # devices of a node were asked for above
        launch.cluster(wanted, nodes or (1, "not in the file", None), per_node or (1, "", None))
        return None
    return launch.cluster(wanted, nodes or (1, "not in the file", None), per_node)


def distillation(launch: Launch, wanted: Wanted, said: str, line: int | None) -> None:
    """Refuse a file that trains under a teacher, unless `--without distillation` takes the student alone.

    Args:
        launch: what was read of it.
        wanted: what the caller goes on without.
        said: setting that names the teacher.
        line: its line.
    """
    if not wanted.goes_without("distillation"):
        rule = (
            "is distillation: a teacher passes forward as well, which a scenario does not hold; "
            "--without distillation reads the student alone"
        )
        launch.wrong(said, rule, line=line)


def post_training(launch: Launch, wanted: Wanted, algorithm: str, what: str, said: tuple[str, int | None]) -> None:
    """Say that a file is one of post-training: its step of training is read, its rollouts are not.

    Args:
        launch: what was read of it.
        wanted: `--without rollouts` takes the step of the policy alone.
        algorithm: by its name, such as GRPO.
        what: what stands beside the step.
        said: setting that says so, and its line.
    """
    launch.post_training = algorithm
    if wanted.goes_without("rollouts"):
        launch.leave(said[0], algorithm, said[1], f"post-training: {what}; the step of the policy alone is read")
        return
    rule = (
        f"is post-training ({algorithm}): {what}, which a scenario does not hold yet; "
        "--without rollouts reads the step of the policy alone"
    )
    launch.wrong(said[0], rule, line=said[1])
