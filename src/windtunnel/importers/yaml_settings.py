"""YAML mappings by dotted name, each value with its line."""

from __future__ import annotations

from typing import Any

import yaml

from windtunnel.files.parsing import NotYaml, value_of, yaml_nodes
from windtunnel.importers.launch import Launch


def read_mapping(text: str, launch: Launch) -> tuple[dict[str, Any], dict[str, int]]:
    """Values and lines of a YAML mapping by dotted name; anything else becomes a problem of the launch.

    Lists are values; a mapping inside a mapping is flattened. Values are as YAML 1.1 reads them, except that a number
    such as `1e-4`, which YAML 1.1 takes as text, stays text.
    """
    try:
        nodes = yaml_nodes(text)
    except NotYaml as error:
        launch.wrong("", f"is not YAML: {error}", line=error.line)
        return {}, {}
    node = nodes[0] if len(nodes) == 1 else None
    if not isinstance(node, yaml.MappingNode):
        launch.wrong("", "must hold a YAML mapping")
        return {}, {}
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    _walk(node, "", values, lines)
    return values, lines


def top_level_keys(text: str) -> frozenset[str]:
    """Keys of a YAML mapping without reading it: words at the start of a line before a colon."""
    keys = set()
    for line in text.splitlines():
        word, colon, rest = line.partition(":")
        if colon and word and not word[0].isspace() and " " not in word.strip() and (not rest or rest[0].isspace()):
            keys.add(word.strip().strip("\"'"))
    return frozenset(keys)


def _walk(node: yaml.MappingNode, prefix: str, values: dict[str, Any], lines: dict[str, int]) -> None:
    """Collect the values of a mapping."""
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        lines[name] = key.start_mark.line + 1
        if isinstance(value, yaml.MappingNode) and value.value:
            _walk(value, f"{name}.", values, lines)
        else:
            values[name] = _plain(value)


def _plain(node: yaml.Node) -> Any:
    """A value as Python has it."""
    try:
        return value_of(node)
    except NotYaml:
        return str(node.value)
