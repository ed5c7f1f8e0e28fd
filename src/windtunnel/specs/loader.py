"""Scenario and specification files in and out: safe YAML or JSON, and every problem at once with its line."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from windtunnel.errors import UNSET, ProblemList, nearest_name
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import RECOMPUTE_MODULES, Overlap
from windtunnel.specs.scenario import ModelFile, Scenario

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_ALIASES = 100
MAX_NODES = 100_000

_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp")}


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
        return self.file, None


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
    return _validate(Scenario, data, lines, problems), lines


def load_model_spec(source: str | Path | dict[str, Any]) -> ModelSpec:
    """Read a model specification from a file or a mapping."""
    data, lines, problems = _read(source)
    return _validate(ModelSpec, data, lines, problems)


def load_cluster_ref(source: str | Path | dict[str, Any]) -> ClusterRef:
    """Read what a scenario would have under `cluster:` from a file or a mapping."""
    data, lines, problems = _read(source)
    return _validate(ClusterRef, data, lines, problems)


def dump_scenario(scenario: Scenario) -> str:
    """YAML text that `load_scenario` reads back to an equal scenario."""
    return yaml.safe_dump(scenario.model_dump(mode="json", exclude_unset=True), sort_keys=False, allow_unicode=True)


def _read(source: str | Path | dict[str, Any]) -> tuple[dict[str, Any], SourceMap, ProblemList]:
    if isinstance(source, dict):
        return _copy(source), (lines := SourceMap()), ProblemList(lines)
    lines = SourceMap(file=str(source))
    problems = ProblemList(lines)
    try:
        raw = Path(source).read_bytes()[: MAX_BYTES + 1]
        text = raw.decode("utf-8-sig")
    except OSError as error:
        problems.add("", UNSET, f"cannot be read: {error.strerror or error}")
    except UnicodeDecodeError:
        problems.add("", UNSET, "must be UTF-8 text")
    else:
        if len(raw) > MAX_BYTES:
            problems.add("", UNSET, f"must be at most {MAX_BYTES} bytes")
        problems.raise_if_any()
        data = _parse(text, lines, problems)
        problems.raise_if_any()
        if not isinstance(data, dict):
            problems.add("", data, "must be a mapping of fields")
        else:
            return data, lines, problems
    problems.raise_if_any()
    raise AssertionError("unreachable")


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if isinstance(value, list | tuple) else value


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
        lines.lines["<yaml>"] = error.problem_mark.line + 1 if error.problem_mark else 1
        problems.add("<yaml>", UNSET, f"not valid YAML: {error.problem}")
        return None
    except yaml.YAMLError as error:
        problems.add("", UNSET, f"not valid YAML: {' '.join(str(error).split())}")
        return None
    builder = _Builder(lines, problems)
    return {} if node is None else builder.build(node, "", frozenset())


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
        try:
            return self.scalars.construct_object(node)
        except (ValueError, yaml.YAMLError):
            self.problems.add(path, node.value, "is not a valid number")
            return None


def _override(data: dict[str, Any], overrides: Sequence[str], lines: SourceMap, problems: ProblemList) -> None:
    for text in overrides:
        path, equals, value_text = text.partition("=")
        path = path.strip()
        if not equals or not all(path.split(".")):
            problems.add("--set", text, "must be path.to.field=value")
            continue
        lines.overridden.add(path)
        before = len(problems)
        value = _parse(value_text, SourceMap(file="--set"), problems)
        if len(problems) > before:
            continue
        value = None if not value_text.strip() else value
        *parents, last = path.split(".")
        target: Any = data
        for part in parents:
            if isinstance(target, list) and part.isdigit() and int(part) < len(target):
                target = target[int(part)]
            elif isinstance(target, dict):
                target = target.setdefault(part, {})
                continue
            else:
                target = None
        if isinstance(target, dict):
            target[last] = value
        elif isinstance(target, list) and last.isdigit() and int(last) < len(target):
            target[int(last)] = value
        else:
            problems.add(path, UNSET, "no such field: its parent is not a mapping or list with that entry")


def _expand_shorthands(data: dict[str, Any]) -> None:
    plan = data.get("plan")
    if not isinstance(plan, dict):
        return
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
        _explain(spec, data, error, problems)
    problems.raise_if_any()
    assert result is not None
    return result


def _explain(spec: type[BaseModel], data: Any, error: ValidationError, problems: ProblemList) -> None:
    seen = set()
    for item in error.errors(include_url=False):
        path, owner, meant = _follow(spec, data, item["loc"])
        if not meant:
            continue
        kind, value, nearest, rule = item["type"], item["input"], None, item["msg"]
        if kind == "extra_forbidden":
            known = owner.model_fields if owner else ()
            rule, nearest = "unknown field", nearest_name(str(item["loc"][-1]), known)
        elif kind == "missing":
            value, rule = UNSET, "is required"
        elif kind == "literal_error":
            annotation = str(item["ctx"]["expected"])
            rule, nearest = f"must be {annotation}", nearest_name(str(value), annotation.replace(" or ", ", ").split(", "))
            nearest = nearest.strip("'") if nearest else None
        elif kind == "value_error":
            rule, value = rule.removeprefix("Value error, "), UNSET if isinstance(value, dict | BaseModel) else value
            rule, _, hint = rule.partition("; did you mean '")
            nearest = hint.removesuffix("'?") or None
        else:
            rule = rule.replace("Input should be", "must be")
        if (path, kind) not in seen:
            seen.add((path, kind))
            problems.add(path, value, rule, nearest=nearest)


def _follow(spec: type[BaseModel], data: Any, loc: tuple[int | str, ...]) -> tuple[str, type[BaseModel] | None, bool]:
    """Dotted path without union labels, the record that owns its last part, whether that union branch was meant."""
    path: list[str] = []
    owner: type[BaseModel] | None = spec
    value = data
    branches: list[Any] = []
    for part in loc:
        if branches:
            chosen = _meant(branches, value)
            labels = {getattr(b, "__name__", str(b)): b for b in branches}
            label = str(part).rsplit("[", 1)[-1].rstrip("]").rsplit(", ", 1)[-1]
            if label in labels or part in ("str", "int") or "[" in str(part):
                if chosen is not None and labels.get(label, part) is not chosen:
                    return ".".join(path), owner, False
                owner = chosen if isinstance(chosen, type) and issubclass(chosen, BaseModel) else None
                branches = []
                continue
        path.append(str(part))
        annotation = owner.model_fields[str(part)].annotation if owner and str(part) in owner.model_fields else None
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            value = None
        is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
        members = [a for a in typing.get_args(annotation) if a is not type(None)] if is_union else []
        if annotation is not None:
            single = members[0] if len(members) == 1 else annotation
            last = part == loc[-1] and len(path) and loc.index(part) == len(loc) - 1
            if not last:
                owner = single if isinstance(single, type) and issubclass(single, BaseModel) else None
            branches = members if len(members) > 1 else []
    return ".".join(path), owner, True


def _meant(branches: list[Any], value: Any) -> Any:
    """The branch of a union that a value was written for; None when that cannot be told."""
    records = [b for b in branches if isinstance(b, type) and issubclass(b, BaseModel)]
    if isinstance(value, dict) and records:
        if ModelFile in records:
            return ModelFile if "config" in value else ModelSpec
        return records[0]
    if isinstance(value, str):
        return str if str in branches else None
    return None
