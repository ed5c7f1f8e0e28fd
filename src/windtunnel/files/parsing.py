"""JSON, TOML and YAML of other people as data: too many levels are an error of form, as a missing bracket is."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import yaml

MOST_LEVELS = 100
"""Levels of nested lists and mappings; what reads the data goes down one call a level."""
MOST_VALUES = 100_000
"""Values of a YAML text, aliases expanded."""
MOST_DIGITS = 15
"""Digits of an integer: what a float holds exactly, and more than any count in a file."""
_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LONG_NUMBER = re.compile(r"(?<!\d)\d{301}")
_TOO_MANY = f"more than {MOST_VALUES:,} values, aliases expanded"
_MOST = 10**300
_TOO_LONG = "an integer of more than 300 digits"
_TOO_DEEP = f"more than {MOST_LEVELS} levels of lists and mappings"


def whole_number(text: str) -> int | None:
    """The integer of at least 0 that a text spells in digits; None for anything else, or with too many digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text.lstrip("0")) <= MOST_DIGITS else None


def json_of(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is no JSON, has too many levels, or holds half of a surrogate pair.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > MOST_LEVELS:
        _check_levels(data)
    if _LONG_NUMBER.search(text):
        _check_numbers(data)
    if "\\u" in text or not text.isascii():
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair") from None
    return data


def toml_of(text: str) -> dict[str, Any]:
    """The tables of a TOML text.

    Raises:
        ValueError: it is no TOML, or has too many levels.
    """
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check_levels(data)
    _check_numbers(data)
    return data


class NotYaml(ValueError):
    """A text that is no YAML, or more than is read; `line` (1-based) where it is known."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.line = line


def yaml_nodes(text: str) -> list[yaml.Node]:
    """The nodes of the documents of a YAML text, with their lines.

    Raises:
        NotYaml: it is no YAML, has too many levels, or aliases that stand for too many values.
    """
    try:
        depth, values = 0, 0
        for event in yaml.parse(text, Loader=_FAST):  # counted before nodes are made
            values += isinstance(event, yaml.NodeEvent)
            if values > MOST_VALUES:
                raise NotYaml(_TOO_MANY)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_LEVELS:
                raise NotYaml(_TOO_DEEP)
        nodes = [node for node in yaml.compose_all(text, Loader=_FAST) if node is not None]
    except (yaml.YAMLError, UnicodeError) as error:
        mark = getattr(error, "problem_mark", None)
        why = str(getattr(error, "problem", None) or "cannot be read")
        raise NotYaml(why, mark.line + 1 if mark else None) from None
    if sum(_count(node, {}, frozenset()) for node in nodes) > MOST_VALUES:
        raise NotYaml(_TOO_MANY)
    return nodes


def yaml_of(text: str) -> Any:
    """The value of a YAML text of one document; None where it is empty.

    Raises:
        NotYaml: it is no YAML, or more than is read.
    """
    nodes = yaml_nodes(text)
    if len(nodes) > 1:
        raise NotYaml("more than one document", nodes[1].start_mark.line + 1)
    return value_of(nodes[0]) if nodes else None


def value_of(node: yaml.Node) -> Any:
    """The value of a node.

    Raises:
        NotYaml: it has a value that YAML does not define (a date that is none, a list as a key, a tag),
            or an integer that is too long.
    """
    try:
        data = yaml.constructor.SafeConstructor().construct_document(node)
        _check_numbers(data)
    except (yaml.YAMLError, ValueError, OverflowError, TypeError) as error:
        why = str(getattr(error, "problem", None) or error)
        raise NotYaml(" ".join(why.split()), node.start_mark.line + 1) from None
    return data


def _count(node: yaml.Node, known: dict[int, int], above: frozenset[int]) -> int:
    """Values below a node, aliases expanded; more than are allowed where one contains itself."""
    if id(node) in above:
        return MOST_VALUES + 1
    if id(node) not in known:
        inner: list[Any] = node.value if isinstance(node, yaml.CollectionNode) else []
        flat = [part for one in inner for part in (one if isinstance(one, tuple) else (one,))]
        known[id(node)] = 1 + sum(_count(part, known, above | {id(node)}) for part in flat)
    return known[id(node)]


def _check_numbers(data: Any) -> None:
    """Refuse integers that no float holds: every figure becomes one."""
    waiting = [data]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one
        elif isinstance(one, int) and not -_MOST < one < _MOST:
            raise ValueError(_TOO_LONG)


def _check_levels(data: Any) -> None:
    level = [data]
    for _ in range(MOST_LEVELS + 1):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += [value for value in one.values() if isinstance(value, dict | list)]
            elif isinstance(one, list):
                inner += [value for value in one if isinstance(value, dict | list)]
        level = inner
    if level:
        raise ValueError(_TOO_DEEP)
