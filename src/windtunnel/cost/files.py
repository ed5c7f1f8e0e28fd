"""Coefficient files, read once."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

_DIRECTORY = "catalog/coefficients"


@cache
def coefficient_file(name: str) -> dict[str, Any]:
    """A file below `catalog/coefficients`, without its ending; empty where there is none."""
    import yaml

    path = resources.files("windtunnel") / _DIRECTORY / f"{name}.yaml"
    if not path.is_file():
        return {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text(), Loader=loader) or {}
