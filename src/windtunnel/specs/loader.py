"""Scenario and specification files in and out: safe YAML or JSON, and every problem at once with its line."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from windtunnel.errors import UNSET, BadInput, Problem, ProblemList, nearest_name
from windtunnel.specs.base import Inconsistent
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import RECOMPUTE_MODULES, Overlap
from windtunnel.specs.population import PopulationSpec, anchor_samples
from windtunnel.specs.run import FailureProfile
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.spellings import not_simulated, spelling
from windtunnel.specs.traffic import TrafficSpec

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_ALIASES = 100
MAX_NODES = 100_000

_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp")}

_EXPONENT = re.compile(r"[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+")
"""`1e3`: a number to people and to JSON, a string to YAML 1.1."""


@dataclass(slots=True)
class SourceMap:
    """Where each field of a file was written."""

    file: str | None = None
    lines: dict[str, int] = field(default_factory=dict)
    """Dotted field path → line, 1-based."""
    overridden: set[str] = field(default_factory=set)

    def where(self, field: str) -> tuple[str | None, int | None]:
        """File and line of a field, or of its nearest written parent; `--set` for an override."""
        parts = field.split(".") if field else []
        for n in range(len(parts), 0, -1):
            path = ".".join(parts[:n])
            if path in self.overridden:
                return f"--set {path}", None
            if path in self.lines:
                return self.file, self.lines[path]
        return self.file, self.lines.get("")


def load_scenario(source: str | Path | dict[str, Any], overrides: Sequence[str] = ()) -> Scenario:
    """Read a scenario from a YAML or JSON file (or a mapping), with `a.b=value` overrides.

    Raises:
        BadInput: lists every problem with its file and line.
    """
    return load_scenario_with_source(source, overrides)[0]


def load_scenario_with_source(
    source: str | Path | dict[str, Any], overrides: Sequence[str] = ()
) -> tuple[Scenario, SourceMap]:
    """`load_scenario`, and where each field was written, for problems that are found later."""
    data, lines, problems = _read(source)
    _override(data, overrides, lines, problems)
    _expand_shorthands(data)
    folder = getattr(source, "folder", None) or (Path(source).parent if isinstance(source, (str, Path)) else Path())
    _read_profiles(data.get("cluster"), "cluster", folder, problems)
    _read_failures(data.get("run"), "run", folder, problems)
    jobs = data.get("jobs")
    _read_failures(jobs.get("outages") if isinstance(jobs, dict) else None, "jobs.outages", folder, problems)
    _read_population(data, folder, problems)
    if "model" not in data and "jobs" not in data and "learning" not in data:
        problems.add("model", UNSET, "is required")
    jobs = data.get("jobs")
    of_jobs = isinstance(jobs, dict) and jobs.get("nodes")
    if "cluster" not in data and not of_jobs and "learning" not in data:
        problems.add("cluster", UNSET, "is required")
    return _validate(Scenario, data, lines, problems), lines


def _read_profiles(cluster: Any, field: str, folder: Path, problems: ProblemList) -> None:
    """Put devices named by file (`device: mine.yaml`) in the place of their names, so that results stand alone."""
    if not isinstance(cluster, dict):
        return
    groups = cluster.get("groups")
    for at, group in enumerate(groups if isinstance(groups, list) else ()):
        _read_profiles(group, f"{field}.groups.{at}", folder, problems)
    named = cluster.get("device")
    if not isinstance(named, str) or not named.endswith((".yaml", ".yml", ".json")):
        return
    try:
        data, _, own = _read(folder / named)
    except BadInput as error:
        problems.extend(replace(p, field=f"{field}.device") for p in error.problems)
        return
    network = data.pop("cluster", {})
    if isinstance(network, dict):
        for key, value in network.items():
            cluster.setdefault(key, value)
    try:
        DeviceSpec.model_validate(data)
    except ValidationError as error:
        explain(DeviceSpec, data, error, own)
    problems.extend(own)
    cluster["device"] = data


def _read_failures(section: Any, field: str, folder: Path, problems: ProblemList) -> None:
    """Put a failure profile named by file (`failures: mine.yaml`) in the place of its name, as with devices."""
    named = section.get("failures") if isinstance(section, dict) else None
    if not isinstance(named, str) or not named.endswith((".yaml", ".yml", ".json")):
        return
    try:
        data, _, own = _read(folder / named)
    except BadInput as error:
        problems.extend(replace(p, field=f"{field}.failures") for p in error.problems)
        return
    try:
        FailureProfile.model_validate(data)
    except ValidationError as error:
        explain(FailureProfile, data, error, own)
    problems.extend(own)
    section["failures"] = data


def _read_population(data: dict[str, Any], folder: Path, problems: ProblemList) -> None:
    """Put a population named by file in the place of its name; files of samples are relative to the scenario."""
    named = data.get("population")
    if isinstance(named, str) and named.endswith((".yaml", ".yml", ".json")):
        try:
            section, _, own = _read(folder / named)
        except BadInput as error:
            problems.extend(replace(p, field="population") for p in error.problems)
            data["population"] = None
            return
        try:
            PopulationSpec.model_validate(section)
        except ValidationError as error:
            explain(PopulationSpec, section, error, own)
        problems.extend(own)
        data["population"] = section
        folder = (folder / named).parent
    anchor_samples(data.get("population"), folder)


def parse_mapping(text: str, file: str) -> dict[str, Any]:
    """YAML text as plain data under the rules that files obey: no tags, no repeated keys, bounded size and aliases."""
    lines = SourceMap(file=file)
    problems = ProblemList(lines)
    data = _parse(text, lines, problems) if len(text) <= MAX_BYTES else None
    if len(text) > MAX_BYTES:
        problems.add("", UNSET, f"must be at most {MAX_BYTES} bytes")
    elif not isinstance(data, dict) and not problems:
        problems.add("", UNSET, "must hold a scenario (a mapping of fields)")
    problems.raise_if_any()
    assert isinstance(data, dict)
    return data


def fields_of(source: str | Path | dict[str, Any], overrides: Sequence[str] = ()) -> tuple[dict[str, Any], SourceMap]:
    """The fields of a scenario as plain data, unchecked, and where each was written.

    Raises:
        BadInput: the file cannot be read or is not YAML.
    """
    data, lines, problems = _read(source)
    _override(data, overrides, lines, ProblemList())
    problems.raise_if_any()
    return data, lines


def read_mapping(path: str | Path) -> dict[str, Any]:
    """The fields of a scenario file as plain data, unchecked but for YAML itself.

    Raises:
        BadInput: the file cannot be read or is not a mapping of fields.
    """
    data, _, problems = _read(path)
    problems.raise_if_any()
    return data


def load_model_spec(source: str | Path | dict[str, Any]) -> ModelSpec:
    """Read a model specification from a file or a mapping."""
    data, lines, problems = _read(source)
    return _validate(ModelSpec, data, lines, problems)


def load_cluster_ref(source: str | Path | dict[str, Any]) -> ClusterRef:
    """Read what a scenario would have under `cluster:` from a file or a mapping."""
    data, lines, problems = _read(source)
    return _validate(ClusterRef, data, lines, problems)


def load_traffic_spec(source: dict[str, Any]) -> TrafficSpec:
    """Read what a scenario would have under `serving.traffic:`; problems name fields with that prefix."""
    lines = SourceMap()
    problems = ProblemList(prefix="serving.traffic")
    return _validate(TrafficSpec, source, lines, problems)


def dump_scenario(scenario: Scenario) -> str:
    """YAML text that `load_scenario` reads back to an equal scenario."""
    return yaml.safe_dump(scenario.model_dump(mode="json", exclude_unset=True), sort_keys=False, allow_unicode=True)


def _read(source: str | Path | dict[str, Any]) -> tuple[dict[str, Any], SourceMap, ProblemList]:
    if isinstance(source, dict):
        problems = ProblemList()
        data = _copy(source, problems)
        problems.raise_if_any()
        return data, (lines := SourceMap()), ProblemList(lines)
    lines = SourceMap(file=str(source))
    problems = ProblemList(lines)
    try:
        with Path(source).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig") if len(raw) <= MAX_BYTES else ""
    except OSError as error:
        problems.add("", UNSET, f"cannot be read: {error.strerror or error}")
    except UnicodeDecodeError:
        problems.add("", UNSET, "must be UTF-8 text")
    else:
        if len(raw) > MAX_BYTES:
            problems.add("", UNSET, f"must be at most {MAX_BYTES} bytes")
        problems.raise_if_any()
        if Path(source).suffix == ".json":
            text = text.replace("\t", " ")  # YAML refuses tabs between tokens; inside JSON strings they are not allowed
        data = _parse(text, lines, problems)
        problems.raise_if_any()
        if not isinstance(data, dict):
            problems.add("", data, "must be a mapping of fields")
        else:
            return data, lines, problems
    problems.raise_if_any()
    raise AssertionError("unreachable")


def _copy(value: Any, problems: ProblemList, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        if not problems:
            problems.add("", UNSET, f"must have at most {MAX_DEPTH} levels")
        return None
    if isinstance(value, dict):
        return {str(k): _copy(v, problems, depth + 1) for k, v in value.items()}
    if isinstance(value, str) and "\x00" in value:
        problems.add("", value, "must not hold the character NUL")
    return [_copy(v, problems, depth + 1) for v in value] if isinstance(value, list | tuple) else value


def _parse(text: str, lines: SourceMap, problems: ProblemList) -> Any:
    aliases = depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                aliases += 1
            elif isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if aliases > MAX_ALIASES or depth > MAX_DEPTH:
                problems.add("", UNSET, f"must have at most {MAX_ALIASES} aliases and {MAX_DEPTH} levels")
                return None
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        problems.extend([_syntax(error, text, lines.file)])
        return None
    except yaml.YAMLError as error:
        problems.add("", UNSET, f"not valid YAML: {' '.join(str(error).split())}")
        return None
    builder = _Builder(lines, problems)
    return {} if node is None else builder.build(node, "", frozenset())


def _syntax(error: yaml.MarkedYAMLError, text: str, file: str | None) -> Problem:
    """What is wrong with the YAML, at the line where it begins: a bracket that is never closed, where it opens."""
    mark, opened = error.problem_mark, error.context_mark
    if opened is not None and (error.context or "").startswith("while parsing a flow"):
        bracket = text[opened.index : opened.index + 1]
        rule = f"not valid YAML: '{bracket}' is not closed before line {(mark or opened).line + 1}"
        return Problem("", rule, file=file, line=opened.line + 1)
    return Problem("", f"not valid YAML: {error.problem}", file=file, line=mark.line + 1 if mark else None)


class _Builder:
    """Turns YAML nodes into plain data, noting the line of every path."""

    def __init__(self, lines: SourceMap, problems: ProblemList) -> None:
        self.lines, self.problems, self.nodes = lines, problems, 0
        self.scalars = yaml.constructor.SafeConstructor()

    def build(self, node: yaml.Node, path: str, above: frozenset[int]) -> Any:
        self.nodes += 1
        self.lines.lines.setdefault(path, node.start_mark.line + 1)
        if self.nodes == MAX_NODES:
            self.problems.add("", UNSET, f"must have at most {MAX_NODES} values, aliases expanded")
        if self.nodes >= MAX_NODES:
            return None
        if id(node) in above:
            self.problems.add(path, UNSET, "an alias may not contain itself")
            return None
        if node.tag not in _TAGS:
            self.problems.add(path, node.tag, "tags and merge keys are not allowed, only plain data")
            return None
        above = above | {id(node)}
        if isinstance(node, yaml.MappingNode):
            result: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
                inner = f"{path}.{key}" if path else key
                if key_node.tag not in _TAGS or key == "?":
                    self.lines.lines[inner] = key_node.start_mark.line + 1
                    self.problems.add(inner, UNSET, "tags and merge keys are not allowed, only plain names as keys")
                    continue
                if key in result:
                    self.lines.lines[inner] = key_node.start_mark.line + 1
                    self.problems.add(inner, UNSET, "is given twice")
                    continue
                self.lines.lines[inner] = key_node.start_mark.line + 1
                result[key] = self.build(value_node, inner, above)
            return result
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, f"{path}.{i}" if path else str(i), above) for i, child in enumerate(node.value)]
        if node.tag.endswith("timestamp"):
            return node.value
        if isinstance(node, yaml.ScalarNode) and "\x00" in node.value:
            self.problems.add(path, node.value, "must not hold the character NUL")
            return None
        if isinstance(node, yaml.ScalarNode) and node.style is None and _EXPONENT.fullmatch(node.value):
            return float(node.value)
        try:
            return self.scalars.construct_object(node)
        except (ValueError, yaml.YAMLError):
            self.problems.add(path, node.value, "is not a valid number")
            return None


_INDEX = re.compile(r"\[(\d+)\]")
"""`pools[0]`, which may stand for `pools.0`."""


def _override(data: dict[str, Any], overrides: Sequence[str], lines: SourceMap, problems: ProblemList) -> None:
    for text in overrides:
        path, equals, value_text = text.partition("=")
        path = _INDEX.sub(r".\1", path.strip())
        if not equals or not all(path.split(".")):
            problems.add("--set", text, "must be path.to.field=value")
            continue
        lines.overridden.add(path)
        wrong = ProblemList()
        value = _parse(value_text, SourceMap(), wrong)
        if wrong:
            problems.extend(
                replace(p, field=f"{path}.{p.field}".strip("."), file=f"--set {path}", line=None) for p in wrong
            )
            continue
        value = None if not value_text.strip() else value
        *parents, last = path.split(".")
        target: Any = data
        for part, after in zip(parents, path.split(".")[1:], strict=True):
            empty: Any = [{}] if after == "0" else {}  # the first entry of a list that the file leaves out
            if isinstance(target, list) and part.isdigit() and int(part) < len(target):
                target = target[int(part)]
            elif isinstance(target, dict):
                target = target.setdefault(part, empty)
                continue
            else:
                target = None
        if isinstance(target, dict):
            target[last] = value
        elif isinstance(target, list) and last.isdigit() and int(last) < len(target):
            target[int(last)] = value
        else:
            problems.add(path, UNSET, "no such field: its parent is not a mapping or list with that entry")


AUTO = "auto"
"""In place of a number: an axis that the planner is to choose."""
_OWN_AUTO = frozenset({"dp"})
"""Fields in which `auto` is a value of its own: devices / (tp · pp · cp)."""


def left_to_planner(source: str | Path | dict[str, Any] | Scenario, overrides: Sequence[str] = ()) -> bool:
    """Whether a scenario leaves its plan, or an axis of it, to the planner.

    Raises:
        BadInput: the file cannot be read or is not YAML.
    """
    if isinstance(source, Scenario):
        return "plan" not in source.model_fields_set and not any(o.startswith("plan.") for o in overrides)
    plan = fields_of(source, overrides)[0].get("plan")
    if not isinstance(plan, dict) or not plan:
        return plan in (None, AUTO, {})
    return any(value == AUTO and name not in _OWN_AUTO for name, value in plan.items())


def axes_left_to_planner(
    source: str | Path | dict[str, Any] | Scenario, overrides: Sequence[str] = ()
) -> tuple[str, ...]:
    """`plan` where a scenario leaves its whole plan to the planner, or the axes that it leaves, such as plan.tp.

    Raises:
        BadInput: the file cannot be read or is not YAML.
    """
    if not left_to_planner(source, overrides):
        return ()
    plan = None if isinstance(source, Scenario) else fields_of(source, overrides)[0].get("plan")
    if not isinstance(plan, dict) or not plan:
        return ("plan",)
    return tuple(f"plan.{name}" for name, value in plan.items() if value == AUTO and name not in _OWN_AUTO)


def _expand_shorthands(data: dict[str, Any]) -> None:
    plan = data.get("plan")
    if plan == AUTO:
        plan = data["plan"] = {}
    if not isinstance(plan, dict):
        return
    for name in [name for name, value in plan.items() if value == AUTO and name not in _OWN_AUTO]:
        del plan[name]
    recompute = plan.get("recompute")
    if isinstance(recompute, str):
        plan["recompute"] = (
            {"policy": "modules", "modules": [recompute]} if recompute in RECOMPUTE_MODULES else {"policy": recompute}
        )
    elif isinstance(recompute, list):
        plan["recompute"] = {"policy": "modules", "modules": recompute}
    if isinstance(plan.get("overlap"), bool):
        plan["overlap"] = dict.fromkeys(Overlap.model_fields, plan["overlap"])
    for name in ("vpp", "recompute", "overlap", "offload"):
        if name in plan and plan[name] is None:
            del plan[name]


SpecT = typing.TypeVar("SpecT", bound=BaseModel)


def _validate(spec: type[SpecT], data: dict[str, Any], lines: SourceMap, problems: ProblemList) -> SpecT:
    result: SpecT | None = None
    try:
        result = spec.model_validate(data)
    except ValidationError as error:
        explain(spec, data, error, problems)
    problems.raise_if_any()
    assert result is not None
    return result


def lines_of(file: str | Path) -> dict[str, int]:
    """Dotted field path → line of a YAML or JSON file; empty where it cannot be read. For problems found later."""
    lines = SourceMap(file=str(file))
    try:
        _parse(Path(file).read_text("utf-8").replace("\t", " "), lines, ProblemList())
    except (OSError, UnicodeDecodeError):
        return {}
    return lines.lines


def explain(spec: type[BaseModel], data: Any, error: ValidationError, problems: ProblemList) -> None:
    """Add what pydantic found wrong with `data` as a `spec`, one problem each, in our words."""
    seen = set()
    for item in error.errors(include_url=False):
        place = _locate(spec, data, item["loc"])
        if place is None:
            continue
        path, owner, alternatives = place
        kind, value, nearest, rule = item["type"], item["input"], None, item["msg"]
        if alternatives:
            kind, value, rule = "union", _value_at(data, path), f"must be {alternatives}"
        elif kind == "extra_forbidden":
            known = owner.model_fields if owner else ()
            name = str(item["loc"][-1])
            rule, nearest = "unknown field", spelling(name, known) or nearest_name(name, known)
            if (why := not_simulated(path, name)) is not None:
                rule, nearest = why, None
        elif kind == "missing":
            value, rule = UNSET, "is required"
        elif kind == "literal_error":
            expected = str(item["ctx"]["expected"])
            allowed = [name.strip("'") for name in expected.replace(" or ", ", ").split(", ")]
            rule, nearest = f"must be {expected}", spelling(str(value), allowed) or nearest_name(str(value), allowed)
        elif kind == "value_error":
            cause = item["ctx"]["error"]
            if isinstance(cause, Inconsistent):
                for problem in cause.problems:
                    field = f"{path}.{problem.field}" if path else problem.field
                    problems.add(field, problem.value, problem.rule)
                continue
            rule, value = str(cause), UNSET if isinstance(value, dict | BaseModel) else value
            rule, _, hint = rule.partition("; did you mean '")
            nearest = hint.removesuffix("'?") or None
        elif kind in ("int_parsing", "int_type", "int_from_float"):
            rule = "must be a whole number" + _thousands(value)
        elif kind in ("tuple_type", "list_type"):
            rule = f"must be a list, such as [{value}]" if type(value) in (str, int, float) else "must be a list"
        elif kind in ("dict_type", "model_type"):
            rule = "must be a mapping of fields to values"
        elif kind in ("string_too_short", "too_short"):
            rule = "must not be empty"
        elif kind == "string_type":
            rule = 'must be text; a number in quotes: "0.10"' if isinstance(value, int | float) else "must be text"
        else:
            rule = rule.replace("Input should be", "must be")
        if (path, kind) not in seen:
            seen.add((path, kind))
            problems.add(path, value, rule, nearest=nearest)


def _thousands(value: Any) -> str:
    """What `8k` may have meant."""
    found = re.fullmatch(r"\s*(\d+)\s*([kKmM])\s*", value) if isinstance(value, str) else None
    if found is None:
        return ""
    power = 1 if found[2] in "kK" else 2
    return f", such as {int(found[1]) * 1024**power} or {int(found[1]) * 1000**power}"


def _locate(spec: Any, value: Any, loc: tuple[int | str, ...]) -> tuple[str, type[BaseModel] | None, str] | None:
    """Where a complaint of pydantic belongs.

    `loc` names a union branch after each field that has several; only the branch the value was written for counts.

    Returns:
        Dotted path without branch labels; the record that the last part belongs to; and, where no branch fits the
        value, what would ("a name or a mapping"). None for a complaint about a branch that was not meant.
    """
    path: list[str] = []
    owner: type[BaseModel] | None = None
    annotation: Any = spec
    for part in loc:
        choices = _choices(annotation)
        if len(choices) > 1:
            annotation = _meant(choices, value)
            if annotation is None:
                return ".".join(path), owner, " or ".join(dict.fromkeys(_in_words(c) for c in choices))
            if not _names(str(part), annotation):
                return None
            continue
        annotation = choices[0]
        if part == "[key]":
            continue
        path.append(str(part))
        owner = annotation if _is_record(annotation) else None
        annotation = _inside(annotation, part)
        value = _entry(value, part)
    return ".".join(path), owner, ""


def _choices(annotation: Any) -> list[Any]:
    """Members of a union without None; the annotation itself when it is none."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _choices(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [c for a in typing.get_args(annotation) if a is not type(None) for c in _choices(a)]
    return [annotation]


def _inside(annotation: Any, part: int | str) -> Any:
    """Annotation of a field, entry or item."""
    if _is_record(annotation):
        field = annotation.model_fields.get(str(part))
        return field.annotation if field else Any
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    return arguments[1] if origin is dict else arguments[0] if origin in (tuple, list) else Any


def _meant(choices: list[Any], value: Any) -> Any:
    """The branch of a union that a value was written for; None when that cannot be told."""
    if isinstance(value, dict):
        records = [c for c in choices if _is_record(c)]
        if records:
            return max(records, key=lambda record: len(value.keys() & record.model_fields.keys()))
        return next((c for c in choices if typing.get_origin(c) is dict), None)
    if isinstance(value, str):
        return str if str in choices else None
    number = next((c for c in (int, float) if c in choices), None)
    return number if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_record(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _names(label: str, branch: Any) -> bool:
    """Whether a label in a location of pydantic stands for this branch of a union."""
    if typing.get_origin(branch) is dict:
        return label.startswith("dict[")
    name = branch.__name__
    return label in (name, f"constrained-{name}") or label.endswith(f", {name}]")  # the last with a validator around


def _in_words(branch: Any) -> str:
    if typing.get_origin(branch) is typing.Literal:
        return " or ".join(repr(value) for value in typing.get_args(branch))
    if _is_record(branch) or typing.get_origin(branch) is dict:
        return "a mapping"
    return {str: "a name", int: "a whole number", float: "a number"}.get(branch, str(branch))


def _entry(value: Any, part: int | str) -> Any:
    try:
        return value[part]
    except (KeyError, IndexError, TypeError):
        return None


def _value_at(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = _entry(data, int(part) if isinstance(data, list) and part.isdigit() else part)
    return data
