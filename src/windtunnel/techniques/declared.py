"""Techniques that hold no code of their own, declared in `published/<id>.yaml`, and the registry that finds both kinds.

Keys of a file are fields of `Technique`; `quality` may name a text that several share (`QUALITIES`), and `limits` the
case that those of learning and of programs are tested in.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import yaml

from windtunnel.registry import Registry
from windtunnel.techniques import learning_limits, programs_limits
from windtunnel.techniques.base import Knob, Limits, Technique

QUALITIES = {
    "learning": learning_limits.QUALITY,
    "learning_late": learning_limits.ASYNC_QUALITY,
    "programs": programs_limits.ASSUMED,
}
_LIMITS: dict[str, Callable[..., Limits]] = {
    "learning": learning_limits.limits_of,
    "programs": programs_limits.more_accurate,
}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Techniques(Registry[Technique]):
    """Techniques of modules (their `TECHNIQUE`) and of files that declare one, in the same package."""

    def _import(self, module: str) -> None:
        technique = getattr(importlib.import_module(module), "TECHNIQUE", None)
        if technique is not None:
            self.add(technique.id, technique)

    def _import_named(self, id: str) -> None:
        if f"{id}.yaml" in self._declared():
            self._declare(id)
        super()._import_named(id)

    def _import_all(self) -> None:
        if not self._complete:
            for name in self._declared():
                self._declare(name.removesuffix(".yaml"))
        super()._import_all()

    def _declared(self) -> set[str]:
        names = (entry.name for entry in files(str(self.package)).iterdir())
        return {name for name in names if name.endswith(".yaml")}

    def _declare(self, id: str) -> None:
        if id not in self._entries:
            text = files(str(self.package)).joinpath(f"{id}.yaml").read_text("utf-8")
            self.add(id, declared(id, yaml.load(text, _LOADER)))


def declared(id: str, data: dict[str, Any]) -> Technique:
    """The technique that a file declares."""
    facts = data | {name: _tuples(data[name]) for name in ("edits", "after", "requires") if name in data}
    facts["knobs"] = {
        name: Knob(**knob | {"choices": tuple(knob.get("choices", ()))}) for name, knob in data.get("knobs", {}).items()
    }
    if "quality" in data:
        facts["quality"] = QUALITIES.get(data["quality"], data["quality"])
    if "limits" in data:
        limits = dict(data["limits"])
        facts["limits"] = _LIMITS[limits.pop("case")](**limits)
    return Technique(id=id, **facts)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
