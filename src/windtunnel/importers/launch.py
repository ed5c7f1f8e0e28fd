"""What a framework's launch file says, on its way to a scenario: values with their place, and what was left out.

The readers of single formats (`megatron`, `deepspeed`, `torchtitan`) fill a `Launch`; it becomes the fields of a
scenario and a commented YAML file. Nothing is dropped in silence: a setting is read, or listed as not read with the
reason, or listed as having no bearing on step time and memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from windtunnel.errors import UNSET, BadInput, Problem, comment, nearest_name
from windtunnel.files import reading
from windtunnel.importers.checkpoint_folders import config_of
from windtunnel.importers.named_files import confined_beside
from windtunnel.specs.number_formats import MATRIX_FORMAT, multiplies, next_wider, trained_formats

MODEL_RECORD = frozenset(
    {"name", "provenance", "num_parameters_published", "num_active_parameters_published", "max_position_embeddings"}
)
"""Fields of a model that say nothing of its dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the caller says next to the file. None means: what the file says."""

    device: str | None = None
    nodes: int | None = None
    devices_per_node: int | None = None
    model: str | None = None
    name: str | None = None
    seq_len: int | None = None
    global_batch: int | None = None
    mbs: int | None = None
    vocab_size: int | None = None
    framework: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the scenario that `--set` states."""
    without: tuple[str, ...] = ()
    """Settings of the file to go on without."""

    def goes_without(self, name: str) -> bool:
        """Whether `--without` names a setting, in any case of letters."""
        return any(one.casefold() == name for one in self.without)

    def options(self) -> dict[str, str]:
        """What was given, by option, without `env`."""
        names = (
            "device",
            "nodes",
            "devices_per_node",
            "model",
            "name",
            "seq_len",
            "global_batch",
            "mbs",
            "vocab_size",
            "framework",
        )
        given = {name: getattr(self, name) for name in names}
        return {f"--{name.replace('_', '-')}": str(value) for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Left:
    """A setting of the file that the scenario does not hold."""

    name: str
    value: str
    line: int | None
    why: str
    unknown: bool = False
    """No reader knows what it does: it decides by its name (`severity`)."""
    topic: str = ""
    """What it decides, where a reader knows."""

    def __str__(self) -> str:
        said = f"{self.name} {self.value}".strip()
        return f"{said} (line {self.line}): {self.why}" if self.line else f"{said}: {self.why}"


@dataclass(slots=True, kw_only=True)
class Launch:
    """One launch configuration, read. Fields are dotted scenario paths ("plan.tp") in the order of writing."""

    format: str
    title: str
    file: str
    fields: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    """Field → (what states it, line)."""
    assumed: list[tuple[str, str, str]] = field(default_factory=list)
    """(field, value, why)."""
    unread: list[Left] = field(default_factory=list)
    ignored: list[Left] = field(default_factory=list)
    """Known, without bearing on the time or memory of a step."""
    problems: list[Problem] = field(default_factory=list)
    stored_formats: dict[str, str] = field(default_factory=dict)
    """Fields of `serving.precision` that the configuration of the checkpoint decides."""
    post_training: str = ""
    """The algorithm of a file of post-training, whose step alone is read."""
    objective: str = ""
    """What is trained beside the answers of SFT: dpo, kto, orpo and kin."""
    settings_known: int = 0
    """Settings of the file that were read, or that have no bearing."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Axes of the plan of a recipe that the file names, which the file may leave as they are."""

    def size(self, axis: str) -> int:
        """The size of an axis: the file's, else the recipe's, else 1."""
        return int(self.fields.get(f"plan.{axis}", self.sizes.get(axis, 1)))

    def set(self, path: str, value: Any, said: str, line: int | None = None) -> None:
        """Take a value over from the file."""
        self.fields[path] = value
        self.origin[path] = (said, line)

    def assume(self, path: str, value: Any, why: str) -> None:
        """Fill in a value that the file does not hold, and say so."""
        self.set(path, value, why)
        self.assumed.append((path, json.dumps(value) if not isinstance(value, str) else value, why))

    def leave(self, name: str, value: str, line: int | None, why: str, topic: str = "") -> None:
        """List a setting that was not read; with a topic of `severity`, it stops the import."""
        self.unread.append(Left(name, value, line, why, topic=topic))

    def ignore(self, name: str, value: str, line: int | None) -> None:
        """List a setting without bearing."""
        self.ignored.append(Left(name, value, line, "no bearing on the time or memory of a step"))

    def wrong(self, name: str, rule: str, value: Any = UNSET, line: int | None = None, **more: Any) -> None:
        """Note a setting that stops the reading."""
        self.problems.append(Problem(name, rule, value=value, file=self.file, line=line, **more))

    def cluster(
        self, wanted: Wanted, nodes: tuple[int, str, int | None] | None, per_node: tuple[int, str, int | None] | None
    ) -> int | None:
        """Fill in the cluster from the options and the file; returns the number of devices when it is known."""
        from windtunnel import catalog
        from windtunnel.catalog.resolution import default_node

        before, device = len(self.problems), None
        if wanted.device is None:
            self.wrong("--device", "is required: launch files do not name the accelerator (windtunnel devices)")
        else:
            try:
                device = catalog.device(wanted.device)
                self.set("cluster.device", device.id, "--device")
            except BadInput as error:
                self.problems.extend(error.problems)
        if wanted.nodes is not None:
            self.set("cluster.nodes", wanted.nodes, "--nodes of windtunnel import")
        elif nodes is not None:
            self.set("cluster.nodes", *nodes)
        else:
            self.wrong("--nodes", "is required: the file does not say on how many nodes it runs")
        if wanted.devices_per_node is not None:
            self.set("cluster.devices_per_node", wanted.devices_per_node, "--devices-per-node of windtunnel import")
        elif per_node is not None:
            self.set("cluster.devices_per_node", *per_node)
        elif device is not None and (usual := default_node(device)) is not None:
            size = usual.devices_per_node
            self.assume("cluster.devices_per_node", size, f"not in the file; as in {usual.name}")
        elif device is not None:
            self.wrong("--devices-per-node", "is required: the file does not say how many devices a node has")
        if len(self.problems) > before:
            return None
        return int(self.fields["cluster.nodes"]) * int(self.fields["cluster.devices_per_node"])

    def narrow_precision(self) -> None:
        """Replace a precision that the device has no matrix units for by the next wider one, and say so."""
        from windtunnel import catalog

        device, named = self.fields.get("cluster.device"), self.fields.get("training.precision")
        if not isinstance(device, str) or named not in MATRIX_FORMAT:
            return
        rates = catalog.device(device).peak_flop_per_s
        if multiplies(named, rates):
            return
        said, wider = self.origin["training.precision"][0], next_wider(named, rates)
        units = ", ".join(trained_formats(rates))
        self.assume(
            "training.precision", wider, f"{said} says {named}, but {device} has matrix units for {units} alone"
        )

    def check_batch(self, devices: int | None, inner: int) -> None:
        """Say why no batch follows: the devices are not whole replicas."""
        if "training.global_batch" in self.fields or self.problems or devices is None:
            return
        if devices % inner:
            self.wrong("cluster", f"tp · pp · cp = {inner} must divide the {devices} devices; --nodes changes them")
        else:
            self.wrong("training.global_batch", "does not follow from the file; --global-batch gives it")

    def named_model(self, name: str, said: str, line: int | None = None) -> bool:
        """Use a catalogue model, or a Hugging Face config.json; a problem, and False, when there is none."""
        path = Path(name)
        if path.suffix == ".json" or reading.is_file(path / "config.json"):
            return self._configured_model(path, said)
        return self.named_checkpoint(name, said, line)

    def named_checkpoint(self, name: str, said: str, line: int | None = None) -> bool:
        """Use the model of a checkpoint as `checkpoint` does; a problem, and False, when there is none."""
        try:
            self.checkpoint(name, said, line)
        except BadInput as error:
            self.problems.extend(error.problems)
            return False
        return True

    def checkpoint(self, name: str, said: str, line: int | None = None) -> str | None:
        """Use the model that a checkpoint's name leads to, and say what it was tuned from.

        Where the catalogue does not have the name itself, a `config.json` in its folder or in the cache of Hugging Face
        goes before the model that the name has in it.

        Returns:
            The format of weights that the name says.

        Raises:
            BadInput: no model follows from the name.
        """
        from windtunnel.catalog.model_names import checkpoint

        found = unknown = None
        try:
            found = checkpoint(name)
        except BadInput as error:
            unknown = error
        config = config_of(name, self.file) if found is None or found.why is not None else None
        if config is not None:
            with confined_beside(self.file, config):
                self._configured_model(config, said)
            return None
        if found is None:
            raise unknown or BadInput([])
        self.set("model", found.model.name, said, line)
        if found.why is not None:
            self.assumed.append(("model", found.model.name, found.why))
        return found.format

    def _configured_model(self, path: Path, said: str) -> bool:
        """Use the model of a Hugging Face config, spelled out unless the catalogue has it."""
        from windtunnel.importers.hf_config import checkpoint_formats, read_hf_config

        try:
            read = read_hf_config(path, None)
        except BadInput as error:
            self.problems.extend(error.problems)
            return False
        for name, value, why in read.assumed:
            self.assumed.append((f"model.{name}", str(value), why))
        before = len(self.problems)
        spelled = read.model.model_dump(mode="json", exclude_defaults=True, exclude={"provenance"})
        self.model({**spelled, "name": read.model.name, "family": read.model.family}, {})
        for place in (place for place in self.fields if place.split(".")[0] == "model"):
            self.origin.setdefault(place, (f"{said}: {path}", None))
        self.stored_formats = checkpoint_formats(path) or {}
        return len(self.problems) == before

    def model(self, fields: dict[str, Any], lines: Mapping[str, tuple[str, int | None]]) -> None:
        """Use spelled-out dimensions, by catalogue name where an entry has the very same ones."""
        from pydantic import ValidationError

        from windtunnel.scenarios.explain import explain
        from windtunnel.specs.model import ModelSpec

        try:
            spec = ModelSpec.model_validate(fields)
        except ValidationError as error:
            for problem in explain(ModelSpec, fields, error):
                said, line = lines.get(problem.field, ("", None))
                name = f"{said} ({problem.field})" if said else f"model.{problem.field}"
                self.wrong(name, problem.rule, problem.value, line)
            return
        same = equal_models(spec)
        if same:
            others = f" (as do {', '.join(same[1:])})" if same[1:] else ""
            self.set("model", same[0], f"has the dimensions that the file spells out{others}")
            return
        for key, value in fields.items():
            self.fields[f"model.{key}"] = value
            if key in lines:
                self.origin[f"model.{key}"] = lines[key]

    def scenario(self) -> dict[str, Any]:
        """The fields as a scenario mapping."""
        out: dict[str, Any] = {"schema_version": 1}
        for path in sorted(self.fields, key=lambda p: _ORDER.index(p.split(".")[0])):
            *parents, last = path.split(".")
            place = out
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = self.fields[path]
        listed: dict[str, Any] = _listed_fields(out)
        return listed

    def text(self) -> str:
        """The scenario as a YAML file with the origin of each value, the assumptions and what was not read."""
        lines = [comment(f"Read by windtunnel import from {Path(self.file).name} ({self.title})."), "#"]
        lines += _listed("Assumed (not in the file):", [f"{a} = {b}: {c}" for a, b, c in self.assumed])
        lines += _listed("Not read:", [str(left) for left in self.unread])
        names = sorted({left.name for left in self.ignored})
        lines += _listed("Without bearing on the time or memory of a step:", _wrapped(names))
        lines.pop()
        return "\n".join(lines + _block(self.scenario(), self.origin, "", 0)) + "\n"

    def where(self, path: str) -> tuple[str, int | None] | None:
        """What states a field, or the nearest parent or child of it."""
        parts = re.sub(r"\[(\d+)\]", r".\1", path).split(".")
        for n in range(len(parts), 0, -1):
            found = self.origin.get(".".join(parts[:n]))
            if found is not None:
                return found
        return None

    def located(self, error: BadInput) -> BadInput:
        """Problems of the scenario with the place in the launch file that the values came from."""
        out = []
        for problem in error.problems:
            found = self.where(problem.field)
            said = f" (from {found[0]})" if found else ""
            if "devices of the cluster" in problem.rule or "must divide dp" in problem.rule:
                said += "; --nodes states another number of nodes"
            out.append(
                Problem(
                    problem.field,
                    problem.rule + said,
                    problem.value,
                    problem.nearest,
                    self.file,
                    found[1] if found else None,
                )
            )
        return BadInput(out)

    def forget_lines(self) -> None:
        """Lines are of several files together, and say nothing."""
        self.origin = {path: (said, None) for path, (said, _) in self.origin.items()}
        self.unread = [replace(left, line=None) for left in self.unread]
        self.ignored = [replace(left, line=None) for left in self.ignored]
        self.problems = [replace(problem, line=None) for problem in self.problems]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "format": self.format,
            "file": self.file,
            "scenario": self.scenario(),
            "origin": {k: {"said": said, "line": line} for k, (said, line) in self.origin.items()},
            "assumed": [{"field": a, "value": b, "why": c} for a, b, c in self.assumed],
            "unread": [_left(left) for left in self.unread],
            "ignored": [_left(left) for left in self.ignored],
            **({"objective": self.objective} if self.objective else {}),
        }


_ORDER = ("name", "model", "cluster", "training", "plan", "serving")


def _listed_fields(data: Any) -> Any:
    """Tables whose keys are numbers as lists (`serving.pools.0.plan.tp`)."""
    if not isinstance(data, dict):
        return data
    if data and all(str(key).isdigit() for key in data):
        return [_listed_fields(data[key]) for key in sorted(data, key=int)]
    return {key: _listed_fields(value) for key, value in data.items()}


def equal_models(spec: Any) -> list[str]:
    """Catalogue models whose dimensions equal a model's; positions count where they are learned."""
    from windtunnel import catalog

    def dimensions(model: Any) -> dict[str, Any]:
        data: dict[str, Any] = model.model_dump(exclude=set(MODEL_RECORD))
        if model.position_embedding == "learned":  # a table of parameters
            data["max_position_embeddings"] = model.max_position_embeddings
        data["num_key_value_heads"], data["head_dim"] = model.kv_heads, model.attention_head_dim
        return data

    wanted = dimensions(spec)
    return [entry.name for entry in map(catalog.model, catalog.models()) if dimensions(entry) == wanted]


def unknown_option(launch: Launch, name: str, value: str, line: int | None, known: list[str]) -> None:
    """List an option that the format does not have, with the nearest one that it has."""
    near = nearest_name(name, known, cutoff=0.8)
    why = "unknown option" + (f"; did you mean {near}?" if near else "")
    launch.unread.append(Left(name, value, line, why, unknown=True))


def _left(left: Left) -> dict[str, Any]:
    return {"name": left.name, "value": left.value, "line": left.line, "why": left.why}


def _listed(title: str, entries: list[str]) -> list[str]:
    return [f"# {title}", *(f"#  {comment(entry)[1:]}" for entry in entries), "#"] if entries else []


def _wrapped(names: list[str]) -> list[str]:
    import textwrap

    return textwrap.wrap(" ".join(names), 110, break_on_hyphens=False, break_long_words=False)


def _block(data: dict[str, Any], origin: Mapping[str, tuple[str, int | None]], path: str, depth: int) -> list[str]:
    out = []
    for key, value in data.items():
        here = f"{path}.{key}" if path else key
        head = "  " * depth + f"{key}:"
        if isinstance(value, dict):
            out += ["", head] if depth == 0 else [head]
            out += _block(value, origin, here, depth + 1)
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict):
            out.append(head)
            for i, item in enumerate(value):
                inside = _block(item, origin, f"{here}.{i}", depth + 2) or ["  " * (depth + 2) + "{}"]
                out += [f"{'  ' * (depth + 1)}- {inside[0].lstrip()}", *inside[1:]]
            continue
        said, line = origin.get(here, ("", None))
        note = f"{said}, line {line}" if line else said
        body = f"{head} {_scalar(value)}"
        out.append(f"{body:<38} {comment(note)}" if note else body)
    return out


def _scalar(value: Any) -> str:
    if isinstance(value, bool | int | float | list | tuple) or value is None:
        return json.dumps(value)
    import yaml

    plain = str(yaml.safe_dump(str(value), width=10_000, allow_unicode=True)).removesuffix("\n").removesuffix("\n...")
    return plain
