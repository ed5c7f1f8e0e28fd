"""YAML text as plain data with the line of every field: no tags, no repeated keys, bounded size, depth and aliases."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from windtunnel.errors import UNSET, Problem

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_ALIASES = 100
MAX_NODES = 100_000

_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp")}

_EXPONENT = re.compile(r"[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+")
"""`1e3`: a number to people and to JSON, a string to YAML 1.1."""


@dataclass(slots=True)
class Parsed:
    """What a text holds, where it is written, and what is wrong with it."""

    data: Any = None
    lines: dict[str, int] = field(default_factory=dict)
    """Dotted field path → line, 1-based."""
    problems: list[Problem] = field(default_factory=list)


def parse(text: str, file: str | None = None) -> Parsed:
    """YAML text as plain data; the problems name the file."""
    try:
        if _is_too_deep(text):
            return _refused(f"must have at most {MAX_ALIASES} aliases and {MAX_DEPTH} levels", file)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        return Parsed(problems=[_syntax(error, text, file)])
    except yaml.YAMLError as error:
        return _refused(f"not valid YAML: {' '.join(str(error).split())}", file)
    if node is None:
        return Parsed({})
    builder = _Builder(file)
    data = builder.build(node, "", frozenset())
    return Parsed(data, builder.lines, builder.problems)


def _refused(rule: str, file: str | None) -> Parsed:
    return Parsed(problems=[Problem("", rule, file=file)])


def _is_too_deep(text: str) -> bool:
    """Whether a text has more aliases or levels than allowed; told from its events, before anything is built."""
    aliases = depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            aliases += 1
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if aliases > MAX_ALIASES or depth > MAX_DEPTH:
            return True
    return False


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

    def __init__(self, file: str | None) -> None:
        self.file, self.nodes = file, 0
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self.scalars = yaml.constructor.SafeConstructor()

    def build(self, node: yaml.Node, path: str, above: frozenset[int]) -> Any:
        """The data of a node; None, and a problem, where it may not be."""
        self.nodes += 1
        self.lines.setdefault(path, node.start_mark.line + 1)
        if self.nodes == MAX_NODES:
            self.refuse("", f"must have at most {MAX_NODES} values, aliases expanded")
        if self.nodes >= MAX_NODES:
            return None
        if id(node) in above:
            return self.refuse(path, "an alias may not contain itself")
        if node.tag not in _TAGS:
            return self.refuse(path, "tags and merge keys are not allowed, only plain data", node.tag)
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path, above | {id(node)})
        if isinstance(node, yaml.SequenceNode):
            above = above | {id(node)}
            return [self.build(child, f"{path}.{i}" if path else str(i), above) for i, child in enumerate(node.value)]
        return self.scalar(node, path)

    def mapping(self, node: yaml.MappingNode, path: str, above: frozenset[int]) -> dict[str, Any]:
        """The data of a mapping; keys that may not be are left out."""
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            inner = f"{path}.{key}" if path else key
            self.lines[inner] = key_node.start_mark.line + 1
            if key_node.tag not in _TAGS or key == "?":
                self.refuse(inner, "tags and merge keys are not allowed, only plain names as keys")
            elif key in result:
                self.refuse(inner, "is given twice")
            else:
                result[key] = self.build(value_node, inner, above)
        return result

    def scalar(self, node: yaml.Node, path: str) -> Any:
        """The value of a node without others inside."""
        if node.tag.endswith("timestamp"):
            return node.value
        if isinstance(node, yaml.ScalarNode) and "\x00" in node.value:
            return self.refuse(path, "must not hold the character NUL", node.value)
        if isinstance(node, yaml.ScalarNode) and node.style is None and _EXPONENT.fullmatch(node.value):
            return float(node.value)
        try:
            return self.scalars.construct_object(node)
        except (ValueError, yaml.YAMLError):
            return self.refuse(path, "is not a valid number", node.value)

    def refuse(self, path: str, rule: str, value: Any = UNSET) -> None:
        """Note a problem at the line that the path has now: a later key of the same name gives it another one."""
        self.problems.append(Problem(path, rule, value, file=self.file, line=self.lines[path]))
