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
MAX_NODES = 50_000
"""Values of a text, aliases expanded: some fifty times those of the longest scenario of the examples."""
MAX_PATH = 1000
"""Characters of a field's path."""
_MOST_DIGITS = 400
"""Characters of a number."""
_MOST_READ_AGAIN = 20_000
"""Characters of a wrong text that is read a second time, for a clearer error."""
_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

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
        node = _composed(text)
    except _TooMuch as error:
        return Parsed(problems=[Problem("", str(error), file=file)])
    except yaml.MarkedYAMLError as error:
        return Parsed(problems=[_syntax(error, text, file)])
    except (yaml.YAMLError, UnicodeError) as error:
        return Parsed(problems=[Problem("", f"not valid YAML: {' '.join(str(error).split())}", file=file)])
    if node is None:
        return Parsed({})
    builder = _Builder(file)
    data = builder.build(node, "", frozenset())
    return Parsed(data, builder.lines, builder.problems)


def not_text(value: str) -> str:
    """Why no file and no name could hold these characters; empty where they may."""
    if "\x00" in value:
        return "must not hold the character NUL"
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        return "must not hold half of a surrogate pair"
    return ""


class _TooMuch(Exception):
    """A text holds more than is read."""


def _composed(text: str) -> yaml.Node | None:
    """The nodes of a text, by the fast parser; what it refuses, by the one whose errors are clearer.

    Limits are counted while events arrive, before any node is made.
    """
    try:
        _check_events(text, _FAST)
        return yaml.compose(text, Loader=_FAST)
    except (yaml.YAMLError, UnicodeError):
        if len(text) > _MOST_READ_AGAIN or _FAST is yaml.SafeLoader:
            raise
    _check_events(text, yaml.SafeLoader)
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _check_events(text: str, loader: Any) -> None:
    """Refuse a text with more values, aliases or levels than allowed."""
    values = aliases = depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.ScalarEvent):
            values += 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
        elif isinstance(event, yaml.CollectionStartEvent):
            values, depth = values + 1, depth + 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if values > 2 * MAX_NODES:  # names of fields are among them
            raise _TooMuch(f"must have at most {MAX_NODES} values")
        if aliases > MAX_ALIASES or depth > MAX_DEPTH:
            raise _TooMuch(f"must have at most {MAX_ALIASES} aliases and {MAX_DEPTH} levels")


def _syntax(error: yaml.MarkedYAMLError, text: str, file: str | None) -> Problem:
    """What is wrong with the YAML, at the line where it begins: a bracket that is never closed, where it opens."""
    mark, opened = error.problem_mark, error.context_mark
    if "'\\t'" in str(error.problem) and mark is not None:
        return Problem("", "not valid YAML: a tab stands here; indent with spaces", file=file, line=mark.line + 1)
    if (error.context or "").startswith("while scanning a quoted") and opened is not None:
        quote = text[opened.index : opened.index + 1]
        return Problem("", f"not valid YAML: the quote {quote} is never closed", file=file, line=opened.line + 1)
    if opened is not None and opened.index < len(text) and (error.context or "").startswith("while parsing a flow"):
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
            if len(inner) > MAX_PATH:
                self.lines[path] = self.lines.pop(inner)
                self.refuse(path, f"must hold names of at most {MAX_PATH} characters, those above them counted")
            elif key_node.tag not in _TAGS or key == "?":
                self.refuse(inner, "tags and merge keys are not allowed, only plain names as keys")
            elif why := not_text(key):
                self.refuse(path, f"a name in it {why}")
            elif key in result:
                self.refuse(inner, "is given twice")
            else:
                result[key] = self.build(value_node, inner, above)
        return result

    def scalar(self, node: yaml.Node, path: str) -> Any:
        """The value of a node without others inside."""
        if node.tag.endswith("timestamp"):
            return node.value
        if isinstance(node, yaml.ScalarNode) and (why := not_text(node.value)):
            return self.refuse(path, why, node.value)
        if isinstance(node, yaml.ScalarNode) and not node.style and _EXPONENT.fullmatch(node.value):
            return float(node.value)
        if node.tag.endswith((":int", ":float")) and len(node.value) > _MOST_DIGITS:
            return self.refuse(path, f"is not a valid number: more than {_MOST_DIGITS} characters")
        try:
            return self.scalars.construct_object(node)
        except (ValueError, OverflowError, yaml.YAMLError):
            return self.refuse(path, "is not a valid number", node.value)

    def refuse(self, path: str, rule: str, value: Any = UNSET) -> None:
        """Note a problem at the line that the path has now: a later key of the same name gives it another one."""
        self.problems.append(Problem(path, rule, value, file=self.file, line=self.lines[path]))
