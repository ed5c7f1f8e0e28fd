"""Scenarios with their names looked up even where fields are wrong, so that one run reports every problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from windtunnel import catalog
from windtunnel.catalog.model_names import checkpoint
from windtunnel.catalog.run_tables import failure_profile, grid
from windtunnel.errors import BadInput, Problem
from windtunnel.scenarios.fields import SourceMap
from windtunnel.scenarios.load import load as load_checked
from windtunnel.scenarios.load import unchecked
from windtunnel.scenarios.source import Source
from windtunnel.scenarios.validate import validated_scenario
from windtunnel.specs.scenario import Scenario


def load(source: Source, overrides: Sequence[str] = ()) -> tuple[Scenario, SourceMap, Path]:
    """As `scenarios.load.load`, with unknown models, devices and clusters among the problems.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    if isinstance(source, Scenario):
        return load_checked(source, overrides)
    fields = unchecked(source, overrides)
    try:
        return validated_scenario(fields), fields.lines, fields.folder
    except BadInput as error:
        raise BadInput([*error.problems, *_unknown_names(fields.data, fields.lines)]) from None


def check_names(source: Source, overrides: Sequence[str] = ()) -> None:
    """Check a scenario's fields and the names in it, which commands look up as they need them.

    Raises:
        BadInput: everything wrong with them, at once.
    """
    load(source, overrides)
    if not isinstance(source, Scenario):
        fields = unchecked(source, overrides)
        if unknown := _unknown_names(fields.data, fields.lines):
            raise BadInput(unknown)


def _unknown_names(data: dict[str, Any], lines: SourceMap) -> list[Problem]:
    """Names that the catalogue does not know, in a scenario that cannot be checked as a whole."""
    cluster = data.get("cluster")
    asked: list[tuple[str, Any, Callable[[str], object]]] = [("model", data.get("model"), checkpoint)]
    if isinstance(cluster, str):
        asked.append(("cluster", cluster, catalog.cluster))
    elif isinstance(cluster, dict):
        asked.append(("cluster.device", cluster.get("device"), catalog.device))
    if isinstance(run := data.get("run"), dict):
        asked += [("run.failures", run.get("failures"), failure_profile), ("run.grid", run.get("grid"), grid)]
    problems = []
    for field, name, look_up in asked:
        if not isinstance(name, str) or name.endswith((".yaml", ".yml", ".json")):
            continue
        try:
            look_up(name)
        except BadInput as error:
            file, line = lines.where(field)
            problems += [replace(p, field=field, file=file, line=line) for p in error.problems]
    return problems
