"""Step 4, side files: devices, failure profiles and populations named by file, in the place of their names.

So results stand alone: they hold what the files held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from windtunnel.errors import UNSET, BadInput, Problem
from windtunnel.files.scope import current
from windtunnel.scenarios.explain import explain
from windtunnel.scenarios.fields import Fields
from windtunnel.scenarios.read import read
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.population import PopulationSpec
from windtunnel.specs.run import FailureProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A field that may name a file."""

    section: dict[str, Any]
    key: str
    field: str
    """Dotted path of the field in the scenario."""
    spec: type[BaseModel]
    """What the file has to hold."""

    @property
    def file(self) -> str | None:
        """Name of the file; None where the field names none."""
        named = self.section.get(self.key)
        return named if isinstance(named, str) and named.endswith((".yaml", ".yml", ".json")) else None


def with_side_files(fields: Fields) -> Fields:
    """The fields with what their side files hold; what is wrong in those is among the problems."""
    wrong: list[Problem] = []
    for place in _places(fields.data):
        wrong += _filled(place, fields.folder)
    wrong += _with_population(fields.data, fields.folder)
    return replace(fields, problems=(*fields.problems, *wrong))


def _places(data: dict[str, Any]) -> Iterator[_Place]:
    """Devices and failure profiles of a scenario."""
    yield from _devices(data.get("cluster"), "cluster")
    jobs = data.get("jobs")
    outages = jobs.get("outages") if isinstance(jobs, dict) else None
    for section, name in ((data.get("run"), "run"), (outages, "jobs.outages")):
        if isinstance(section, dict):
            yield _Place(section=section, key="failures", field=f"{name}.failures", spec=FailureProfile)


def _devices(cluster: Any, field: str) -> Iterator[_Place]:
    """The device of a cluster and of each of its groups."""
    if not isinstance(cluster, dict):
        return
    groups = cluster.get("groups")
    for at, group in enumerate(groups if isinstance(groups, list) else ()):
        yield from _devices(group, f"{field}.groups.{at}")
    yield _Place(section=cluster, key="device", field=f"{field}.device", spec=DeviceSpec)


def _filled(place: _Place, folder: Path) -> list[Problem]:
    """Put what a file holds in the place of its name; what is wrong with it."""
    if place.file is None:
        return []
    try:
        beside = read(folder / place.file)
    except BadInput as error:
        return _without_content([replace(p, field=place.field) for p in error.problems], place)
    network = beside.data.pop("cluster", {}) if place.spec is DeviceSpec else {}
    wrong = _without_content(_wrong_in(place.spec, beside), place)
    if wrong and current() is not None:
        return wrong
    if isinstance(network, dict):  # what the profile says of its cluster, where the scenario does not
        for key, value in network.items():
            place.section.setdefault(key, value)
    place.section[place.key] = beside.data
    return wrong


def _without_content(problems: list[Problem], place: _Place) -> list[Problem]:
    """Problems of a side file; where another program asks, none that repeats what the file holds."""
    if not problems or current() is None:
        return problems
    rule = f"must name a file that may be read and holds a {place.spec.__name__}; the command line lists what is wrong"
    return [Problem(place.field, rule, place.section[place.key] if place.file else UNSET)]


def _with_population(data: dict[str, Any], folder: Path) -> list[Problem]:
    """Put a population in the place of its file's name; its samples are then relative to the file's folder."""
    place = _Place(section=data, key="population", field="population", spec=PopulationSpec)
    file = place.file
    wrong = _filled(place, folder)
    if file is not None:
        folder = (folder / file).parent
        if place.file is not None:  # it cannot be read, which is among the problems
            data["population"] = None
    _anchor_samples(data.get("population"), folder)
    return wrong


def _wrong_in(spec: type[BaseModel], beside: Fields) -> list[Problem]:
    """Problems of a side file, at its own lines."""
    try:
        spec.model_validate(beside.data)
    except ValidationError as error:
        return [beside.lines.located(problem) for problem in explain(spec, beside.data, error)]
    return []


def _anchor_samples(section: Any, folder: Path) -> None:
    """Make files of samples in a section, as it was read, relative to the working directory and not to the scenario."""
    if not isinstance(section, dict):
        return
    models = section.get("models")
    for one in (section, *(models.values() if isinstance(models, dict) else ())):
        if isinstance(one, dict) and isinstance(one.get("samples"), str) and one["samples"]:
            one["samples"] = str(folder / one["samples"])
