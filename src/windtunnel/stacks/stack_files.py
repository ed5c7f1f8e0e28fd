"""The files of training frameworks, each read once, and what a framework inherits from."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

from windtunnel.data_files import ROOT, read_yaml
from windtunnel.specs.workload import Framework

FRAMEWORKS: tuple[str, ...] = get_args(Framework)
"""Training frameworks, as scenarios name them."""


@cache
def stack_file(framework: str) -> dict[str, Any]:
    """A framework's file as plain data; empty where there is none."""
    path = f"stacks/training/{framework}.yaml"
    return (read_yaml(path) or {}) if (ROOT / path).is_file() else {}


@cache
def lineage(framework: str) -> tuple[str, ...]:
    """The framework and what it inherits from, the root last."""
    out = [framework]
    while (parent := stack_file(out[-1]).get("inherits")) and parent not in out:
        out.append(parent)
    return tuple(out)


@cache
def datasets() -> dict[str, Any]:
    """Name of a data set, as launchers take it → mean length of its documents in tokens, and the source."""
    return read_yaml("stacks/datasets.yaml") or {}
