"""What tables of training runs share: YAML and JSON with references, dimensions by other names, groups of devices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from windtunnel.files.parsing import NotYaml, yaml_of
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.settings import Settings
from windtunnel.importers.yaml_settings import read_mapping

_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_TRAILING = re.compile(r",(\s*[}\]])")
USUAL_NODE = 8
"""Devices of a node where neither the file nor the device says how many there are."""


def table_of(text: str) -> dict[str, Any]:
    """A YAML or JSON mapping; empty for anything else."""
    if ":" not in text:
        return {}
    try:
        data = yaml_of(text)
    except (NotYaml, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def names_of(text: str) -> frozenset[str]:
    """Dotted names of a mapping to the second level, underscores for hyphens."""
    found = set()
    for key, value in table_of(text).items():
        name = str(key).replace("-", "_")
        found.add(name)
        if isinstance(value, Mapping):
            found |= {f"{name}.{str(inner).replace('-', '_')}" for inner in value}
    return frozenset(found)


def settings_of(text: str, launch: Launch) -> Settings:
    """Settings of a mapping by dotted name, underscores for hyphens, with references to other settings followed."""
    values, lines = read_mapping(text, launch)
    plain = {name.replace("-", "_"): value for name, value in values.items()}
    for name, value in plain.items():
        for _ in range(4):
            whole = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
            if whole is None or whole[1] not in plain:
                break
            value = plain[whole[1]]
        plain[name] = _number(value)
    return Settings(launch, plain, {name.replace("-", "_"): line for name, line in lines.items()})


def _number(value: Any) -> Any:
    """Text that YAML 1.1 does not take as the number that it is."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", value):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 1e15 else number
    return value


def devices_of(launch: Launch, wanted: Wanted, count: int, said: str, line: int | None = None) -> int | None:
    """The cluster of a file that states how many devices it runs on; returns their number where it is known."""
    from windtunnel import catalog
    from windtunnel.catalog.resolution import default_node
    from windtunnel.errors import BadInput

    size = wanted.devices_per_node
    if size is None:
        try:
            usual = default_node(catalog.device(wanted.device)) if wanted.device else None
        except BadInput:
            usual = None
        size = min(usual.devices_per_node if usual else USUAL_NODE, count)
        if count % size:
            size = 1
        launch.assumed.append(("cluster.devices_per_node", str(size), f"not in the file, which has {count} devices"))
    return launch.cluster(wanted, (max(-(-count // size), 1), said, line), (size, said, line))


def dimensions(launch: Launch, s: Settings, names: Mapping[str, str], more: Mapping[str, Any]) -> None:
    """Use dimensions that a file spells out.

    Args:
        launch: what is filled.
        s: settings of the file.
        names: field of a model → setting that holds it.
        more: fields that other settings or the tool decide.
    """
    from pathlib import Path

    fields: dict[str, Any] = {"name": re.sub(r"\W+", "-", Path(launch.file).stem).strip("-") or "model", **more}
    lines: dict[str, tuple[str, int | None]] = {}
    for field, setting in names.items():
        value = s.get(setting)
        if value is not None:
            fields[field], lines[field] = value, s.said(setting)
    launch.model(fields, lines)
