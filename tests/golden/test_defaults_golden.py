"""Numbers that stand in the source: defaults of fields and parameters, constants and tables, equal to stored ones.

They come from papers, data sheets and frameworks, and act only where nobody sets them. `defaults.json` holds them by
name (a class and its field, a function and its parameter, a constant), so that a move changes nothing.
`make goldens` writes it anew; say why in the changelog. New names and
numbers, and names that are gone, are no error here.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from command_digests import checksum
from pydantic import BaseModel

import windtunnel
from windtunnel.techniques import REGISTRY as TECHNIQUES

pytestmark = pytest.mark.golden

STORED = Path(__file__).with_name("defaults.json")
REGENERATE = bool(os.environ.get("WINDTUNNEL_REGENERATE"))
LEFT_OUT = ("__main__", "papers")
OF_EXTRAS = ("mcp", "servers", "studio")
"""Packages that need an extra: their numbers carry the package's name, and are compared where it is installed."""


def modules() -> Iterator[ModuleType]:
    for found in sorted(pkgutil.walk_packages(windtunnel.__path__, "windtunnel."), key=lambda each: each.name):
        if found.name.split(".")[1] not in LEFT_OUT and not found.name.endswith("__main__"):
            try:
                yield importlib.import_module(found.name)
            except ModuleNotFoundError:  # an extra is not installed
                continue


def defaults() -> dict[str, list[float]]:
    """Name → numbers, or checksums of tables, of all that bear it."""
    found: dict[str, set[float]] = {}

    def add(name: str, value: Any) -> None:
        number = checksum(plain(value))
        if number is not None:
            found.setdefault(name, set()).add(float(f"{number:.12g}"))

    for module in modules():
        package = module.__name__.split(".")[1]
        prefix = f"{package}: " if package in OF_EXTRAS else ""
        for name, value in of_module(module):
            add(prefix + name, value)
    for _, technique in TECHNIQUES.items():
        add("TECHNIQUE", technique)
    return {name: sorted(numbers) for name, numbers in sorted(found.items())}


def of_module(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        own = getattr(value, "__module__", None) == module.__name__
        if name.startswith("__"):
            continue
        if isinstance(value, type) and own:
            yield from ((f"{value.__qualname__}.{field}", default) for field, default in fields(value))
            yield from parameters(value)
        elif inspect.isfunction(value) and own:
            yield from signature(value)
        elif isinstance(value, int | float | tuple | list | dict) or dataclasses.is_dataclass(value):
            yield name, value


def fields(record: type) -> Iterator[tuple[str, Any]]:
    if issubclass(record, BaseModel):
        for name, info in record.model_fields.items():
            yield name, info.default
    elif dataclasses.is_dataclass(record):
        for field in dataclasses.fields(record):
            yield field.name, field.default


def parameters(record: type) -> Iterator[tuple[str, Any]]:
    for value in vars(record).values():
        if inspect.isfunction(value):
            yield from signature(value)


def signature(function: Any) -> Iterator[tuple[str, Any]]:
    for name, parameter in inspect.signature(function).parameters.items():
        yield f"{function.__qualname__}({name})", parameter.default


def plain(value: Any) -> Any:
    """Numbers of a value alone; anything else becomes nothing."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return ""


def test_numbers_of_the_source_are_the_stored_ones() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, __file__]  # a fresh process: caches of modules are empty there
    found = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    if REGENERATE:
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(number)}" for name, number in found.items())
        STORED.write_text(f"{{\n{lines}\n}}\n", "utf-8")
    stored = json.loads(STORED.read_text("utf-8"))
    both = found.keys() & stored.keys()
    assert len(both) > 0.9 * len(stored)
    gone = {name: [each for each in stored[name] if each not in found[name]] for name in both}
    assert {} == {name: (missing, found[name]) for name, missing in gone.items() if missing}


if __name__ == "__main__":
    print(json.dumps(defaults()))
