"""Coefficient files of the catalogue, each read once, and which of them make up a framework's coefficients."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from windtunnel.data_files import ROOT, read_yaml
from windtunnel.stacks.stack_files import lineage

_DIRECTORY = "catalog/coefficients"


@cache
def coefficient_file(name: str) -> dict[str, Any]:
    """A file below `catalog/coefficients`, without its ending; empty where there is none."""
    path = f"{_DIRECTORY}/{name}.yaml"
    return (read_yaml(path) or {}) if (ROOT / path).is_file() else {}


@cache
def nearest_generations(generation: str) -> tuple[str, ...]:
    """The generation and those whose coefficients stand in for its own, the nearest first."""
    nearest = coefficient_file("generations")["nearest"]
    out = [generation]
    while (found := nearest.get(out[-1])) and found["generation"] not in out:
        out.append(found["generation"])
    return tuple(out)


def levels_of(kind: str, generation: str, device_id: str) -> tuple[str, ...]:
    """Levels of coefficient files that hold for a device, the least specific first."""
    return (kind, *reversed(nearest_generations(generation)), device_id)


def coefficient_layers(framework: str) -> list[tuple[str, dict[str, Any]]]:
    """Files of starting values and defaults that make up a framework, the least specific first; no fits.

    Returns:
        (framework that owns the file, or "generic"; contents of the file).
    """
    own = coefficient_file(framework)
    chain = [("generic", coefficient_file("generic"))]
    chain += [(parent, coefficient_file(parent)) for parent in lineage(framework)[1:2]]
    return [*chain, (framework, own)]


def fit_of(framework: str, levels: Collection[str]) -> dict[str, Any]:
    """The fitted file that holds for a framework on a device: its own, else what it inherits from; empty for neither.

    Args:
        framework: software generation.
        levels: kind, generation and catalogue id of the device.
    """
    files = (coefficient_file(f"fitted/{name}") for name in lineage(framework)[:2])
    return next((data for data in files if set(levels) & set(data.get("coefficients") or {})), {})


def values(section: dict[str, Any]) -> dict[str, Any]:
    """Plain values of a section whose entries are numbers, words or `{value, grade, source, …}`."""
    out: dict[str, Any] = {}
    for key, entry in section.items():
        if isinstance(entry, dict) and "value" in entry:
            out[key] = entry["value"]
        elif isinstance(entry, dict):
            out[key] = values(entry)
        else:
            out[key] = entry
    return out
