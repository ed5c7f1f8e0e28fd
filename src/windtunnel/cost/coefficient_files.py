"""Coefficient files of the catalogue, each read once, and which of them make up a framework's coefficients."""

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


def lineage(framework: str) -> tuple[str, ...]:
    """The framework and what it inherits from, the root last."""
    out = [framework]
    while (parent := coefficient_file(out[-1]).get("inherits")) and parent not in out:
        out.append(parent)
    return tuple(out)


def coefficient_layers(
    framework: str, levels: tuple[str, str, str], left_out: frozenset[tuple[str, str]] = frozenset()
) -> list[tuple[str, dict[str, Any]]]:
    """Files that make up a framework's coefficients and defaults, the least specific first.

    Args:
        framework: software generation.
        levels: kind, generation and catalogue id of the device; any may be empty.
        left_out: (software, level) whose fits are treated as if nobody had measured them.

    Returns:
        (framework that owns the file, or "generic"; contents of the file).
    """
    chain = [("generic", coefficient_file("generic"))]
    own, fitted = coefficient_file(framework), coefficient_file(f"fitted/{framework}")
    if parent := own.get("inherits"):
        chain.append((parent, coefficient_file(parent)))
        # a parent's fit stands in only where the framework has none of its own: fits of one level belong together
        stands = {level for level in fitted.get("coefficients", {}) if (framework, level) not in left_out}
        if not set(levels) & stands:
            chain.append((parent, coefficient_file(f"fitted/{parent}")))
    return [*chain, (framework, own), (framework, fitted)]


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
