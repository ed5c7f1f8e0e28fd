"""Scenario and specification files in and out: the steps of reading one, strung together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from windtunnel.scenarios.expand import expanded
from windtunnel.scenarios.fields import Fields, SourceMap
from windtunnel.scenarios.read import read
from windtunnel.scenarios.renames import with_current_names
from windtunnel.scenarios.settings import with_settings
from windtunnel.scenarios.side_files import with_side_files
from windtunnel.scenarios.source import Source, folder_of
from windtunnel.scenarios.stack_fields import with_stack
from windtunnel.scenarios.validate import validated, validated_scenario
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.traffic import TrafficSpec


def load_scenario(source: str | Path | dict[str, Any], overrides: Sequence[str] = ()) -> Scenario:
    """Read a scenario from a YAML or JSON file (or a mapping), with `a.b=value` overrides.

    Raises:
        BadInput: lists every problem with its file and line.
    """
    return validated_scenario(unchecked(source, overrides))


def unchecked(source: str | Path | dict[str, Any], overrides: Sequence[str] = ()) -> Fields:
    """All that a scenario states, in full, with what is wrong so far: every step but the last.

    Raises:
        BadInput: the file cannot be read or is not YAML.
    """
    return with_side_files(expanded(_stated(source, overrides)))


def _stated(source: str | Path | dict[str, Any], overrides: Sequence[str]) -> Fields:
    """What a file, settings and the recipe that they name state, under present names."""
    return with_stack(with_settings(with_current_names(read(source)), overrides))


def load(source: Source, overrides: Sequence[str] = ()) -> tuple[Scenario, SourceMap, Path]:
    """A scenario, the line of each of its fields, and the folder that its paths are relative to.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.

    Returns:
        The scenario; the source map of its file, empty where it does not come from one; the folder of the file, or
        the working directory.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    if not isinstance(source, Scenario):
        fields = unchecked(source, overrides)
        return validated_scenario(fields), fields.lines, fields.folder
    if overrides:
        source = load_scenario(source.model_dump(mode="json", exclude_unset=True), overrides)
    return source, SourceMap(), Path()


def fields_of(source: str | Path | dict[str, Any], overrides: Sequence[str] = ()) -> tuple[dict[str, Any], SourceMap]:
    """The fields of a scenario as plain data, unchecked, and where each was written.

    Raises:
        BadInput: the file cannot be read or is not YAML.
    """
    fields = _stated(source, overrides)
    return fields.data, fields.lines


def is_serving(source: Source, overrides: Sequence[str] = ()) -> bool:
    """Whether a scenario has a section `serving` and none `training`.

    Raises:
        BadInput: it cannot be read.
    """
    if isinstance(source, Scenario):
        return source.serving is not None and source.training is None
    data, _ = fields_of(source, overrides)
    return "serving" in data and "training" not in data


def load_model_spec(source: str | Path | dict[str, Any]) -> ModelSpec:
    """Read a model specification from a file or a mapping."""
    return validated(ModelSpec, read(source))


def load_cluster_ref(source: str | Path | dict[str, Any]) -> ClusterRef:
    """Read what a scenario would have under `cluster:` from a file or a mapping."""
    return validated(ClusterRef, read(source))


def load_traffic_spec(source: dict[str, Any]) -> TrafficSpec:
    """Read what a scenario would have under `serving.traffic:`; problems name fields with that prefix."""
    fields = Fields(data=source, folder=folder_of(source), lines=SourceMap())
    return validated(TrafficSpec, fields, prefix="serving.traffic")


def dump_scenario(scenario: Scenario) -> str:
    """YAML text that `load_scenario` reads back to an equal scenario."""
    return yaml.safe_dump(scenario.model_dump(mode="json", exclude_unset=True), sort_keys=False, allow_unicode=True)
