"""Techniques as they are declared: `published/<id>.yaml`, and beside it, where one computes, a module with its hooks.

Keys of a file are fields of `Technique`; `quality` may name a text that several share (`QUALITIES`), and `limits` the
case that those of learning and of programs are tested in. A module is named as the id, with `_` for `-`; its functions
and constants of the names in `MODULE_FIELDS` are the technique's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.resources import files
from types import ModuleType
from typing import Any

from windtunnel.data_files import read_yaml
from windtunnel.registry import Registry
from windtunnel.techniques import learning_limits, programs_limits
from windtunnel.techniques.base import HOOKS, Knob, Limits, Technique

MODULE_FIELDS = (
    *(name for name in HOOKS if name not in ("algorithm", "strategy")),
    *("applies_to", "applies_to_run", "applies_to_jobs", "serving", "limits"),
)
"""What a module may add to its file."""
QUALITIES = {
    "learning": learning_limits.QUALITY,
    "learning_late": learning_limits.ASYNC_QUALITY,
    "programs": programs_limits.ASSUMED,
}
_LIMITS: dict[str, Callable[..., Limits]] = {
    "learning": learning_limits.limits_of,
    "programs": programs_limits.more_accurate,
}
_TUPLES = ("levels", "about", "edits", "after", "requires", "reads")


class Techniques(Registry[Technique]):
    """Techniques of the files of a package, and of plug-ins."""

    def _import_named(self, id: str) -> None:
        if f"{id}.yaml" in self._files():
            self._declare(id)
        self._load_plugin(id)

    def _import_all(self) -> None:
        if not self._complete:
            for name in self._files():
                self._declare(name.removesuffix(".yaml"))
        super()._import_all()

    def _files(self) -> set[str]:
        names = (entry.name for entry in files(str(self.package)).iterdir())
        return {name for name in names if name.endswith(".yaml")}

    def _declare(self, id: str) -> None:
        if id in self._entries:
            return
        found = vars(importlib.import_module(name)) if (name := self._module_of(id)) else {}
        hooks = {x: found[x] for x in MODULE_FIELDS if x in found and not isinstance(found[x], ModuleType)}
        self.add(id, declared(id, read_yaml(f"techniques/published/{id}.yaml") | hooks))

    def _module_of(self, id: str) -> str:
        return next(iter(self._module_names().get(id.replace("-", "_"), ())), "")


def declared(id: str, data: dict[str, Any]) -> Technique:
    """The technique that a file and its hooks declare."""
    facts = data | {name: _tuples(data[name]) for name in _TUPLES if name in data}
    facts["knobs"] = {
        name: Knob(**knob | {"choices": tuple(knob.get("choices", ()))}) for name, knob in data.get("knobs", {}).items()
    }
    if "quality" in data:
        facts["quality"] = QUALITIES.get(data["quality"], data["quality"])
    if isinstance(limits := data.get("limits"), dict):
        facts["limits"] = _LIMITS[limits["case"]](**{name: limits[name] for name in limits if name != "case"})
    return Technique(id=id, **facts)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
