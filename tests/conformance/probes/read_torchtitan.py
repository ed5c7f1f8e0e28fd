"""Runs under a torchtitan release: its `ConfigManager` reads command lines. Prints one JSON list, a mapping a case.

Up to 0.2 the command line names a TOML file; from 0.3 on a Python module, whose folder is in `path`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from typing import Any

import stand_ins
import torch._functorch.partitioners  # noqa: F401 - looks for Triton itself, before a stand-in takes its place

stand_ins.install("triton", "triton.language")


def plain(value: Any) -> Any:
    """Fields of nested configurations as plain data; other objects by the name of their class."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: plain(getattr(value, f.name, None)) for f in dataclasses.fields(value)}
        return fields | {"(class)": type(value).__qualname__}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str | None) else str(type(value))


def read(case: dict[str, Any]) -> dict[str, Any]:
    """The configuration of one command line, or why it is refused."""
    folder = case.get("path")
    if folder:
        sys.path.insert(0, folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            from torchtitan.config.manager import ConfigManager

            found = ConfigManager().parse_args(case["arguments"])
    except (Exception, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        if folder:
            sys.path.remove(folder)
            sys.modules.pop("plan_config", None)
    return {"error": None, "read": plain(found)}


with open(sys.argv[1], encoding="utf-8") as file:
    cases = json.load(file)
print(json.dumps([read(case) for case in cases]))
