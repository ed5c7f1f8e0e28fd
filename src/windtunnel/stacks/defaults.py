"""What a release of a framework does by itself, by device, model, precision and phase."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.releases import NEWEST, begins, release_date
from windtunnel.stacks.stack_files import lineage, stack_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a release of a framework runs on and runs, as far as defaults depend on it. Empty fields are not known."""

    generation: str = ""
    """Generation of the device."""
    device: str = ""
    """Catalogue id of the device."""
    models: tuple[str, ...] = ()
    """Kinds of the model (`dense` or `moe`, `mla`)."""
    name: str = ""
    """Letters and digits of the model's name, in lower case."""
    precision: str = ""
    phase: str = ""
    zero: int | None = None
    """Stage of ZeRO."""
    room: bool | None = None
    """Whether block inputs, queries, keys, values and attention outputs of a micro-batch fit beside sharded states."""

    @classmethod
    def of(cls, training: TrainingSpec, device: DeviceSpec, model: ModelSpec | None = None) -> Setting:
        """The setting of a workload on a device."""
        return cls(
            generation=device.generation,
            device=device.id,
            models=kinds(model) if model is not None else (),
            name=plain(model.name) if model is not None else "",
            precision=training.precision,
            phase=training.phase,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDefault:
    """A default of a framework, the release that brought it and where that stands."""

    value: Any
    since: str
    """Year and month; empty where it holds from the beginning."""
    source: str


SECTIONS = ("defaults", "plan", "training")
"""Sections of a framework's file that hold dated rows."""
ANYWHERE = Setting()
"""Nothing is known but the framework."""


KINDS = ("dense", "moe", "mla")
"""Kinds of models that conditions may name."""


def kinds(model: ModelSpec) -> tuple[str, ...]:
    """The kinds of a model."""
    return ("moe" if model.num_experts else "dense", *(["mla"] if model.is_mla else []))


@cache
def plain(name: str) -> str:
    """Letters and digits of a name, in lower case: `Qwen3-235B-A22B` and `qwen3_235b_a22b` are one."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def scenario_defaults(
    section: str, framework: str, version: str = "", setting: Setting = ANYWHERE
) -> dict[str, ReleaseDefault]:
    """Field of a section of scenarios (`plan`, `training`) → what the framework sets where a scenario is silent."""
    found: dict[str, ReleaseDefault] = {}
    for name in reversed(lineage(framework)):
        found |= defaults_at(name, version, setting, section)
    return found


def defaults_at(
    framework: str, version: str = "", setting: Setting = ANYWHERE, section: str = "defaults"
) -> dict[str, ReleaseDefault]:
    """Field → default that the framework's own rows give a release; rows it inherits are not among them.

    Args:
        framework: framework, as scenarios name it.
        version: release; what cannot be dated counts as the newest.
        setting: what it runs on and runs; a row with a condition on something unknown does not hold.
        section: `defaults` for fields of `Behaviour`, `plan` and `training` for those of a scenario.
    """
    at = release_date(framework, version) or NEWEST
    found: dict[str, ReleaseDefault] = {}
    for name, rows in stack_file(framework).get(section, {}).items():
        for row in rows:
            since = row.get("since")
            if (since is None or begins(since) <= at) and holds(row.get("when", {}), setting):
                found[name] = ReleaseDefault(value=row["value"], since=str(since or ""), source=row["source"])
    return found


def holds(when: dict[str, list[Any]], setting: Setting) -> bool:
    """Whether every condition of a row holds in a setting."""
    tests = {
        "generation": lambda wanted: setting.generation in wanted,
        "precision": lambda wanted: setting.precision in wanted,
        "phase": lambda wanted: setting.phase in wanted,
        "zero": lambda wanted: setting.zero in wanted,
        "room": lambda wanted: setting.room in wanted,
        "device": lambda wanted: setting.device.startswith(tuple(wanted)),
        "model": lambda wanted: any(w in setting.models if w in KINDS else plain(w) in setting.name for w in wanted),
    }
    return all(tests[name](wanted) for name, wanted in when.items())


@cache
def asks(condition: str, framework: str) -> bool:
    """Whether a default of a framework depends on a condition."""
    return any(condition in row.get("when", {}) for name in lineage(framework) for row in _rows(name))


def release_note(framework: str, version: str) -> str | None:
    """Why stating a release changes nothing, as the end of a sentence; None where it may."""
    if not any("since" in row for name in lineage(framework) for row in _rows(name)):
        return f"no default of {framework} is known to differ by release"
    if release_date(framework, version) is None:
        known = "release of it, container (24.07) or date that the catalogue knows"
        return f"{version} is no {known}: the newest defaults of {framework} hold"
    return None


def _rows(framework: str) -> list[dict[str, Any]]:
    sections = (stack_file(framework).get(section, {}) for section in SECTIONS)
    return [row for fields in sections for rows in fields.values() for row in rows]
