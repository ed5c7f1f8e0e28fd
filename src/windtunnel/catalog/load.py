"""Scenarios with their names looked up even where fields are wrong, so that one run reports every problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from windtunnel import catalog
from windtunnel.catalog.run_tables import failure_profile, grid
from windtunnel.errors import BadInput, Problem
from windtunnel.specs import source
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.source import Source


def load(scenario: Source, overrides: Sequence[str] = ()) -> tuple[Scenario, Any, Path]:
    """As `specs.source.load`, with unknown models, devices and clusters among the problems.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    try:
        return source.load(scenario, overrides)
    except BadInput as error:
        raise BadInput([*error.problems, *_unknown_names(scenario, overrides)]) from None


def _unknown_names(scenario: Source, overrides: Sequence[str]) -> list[Problem]:
    """Names that the catalogue does not know, in a scenario that cannot be checked as a whole."""
    from windtunnel.specs.loader import fields_of

    try:
        data, lines = fields_of(scenario, overrides) if not isinstance(scenario, Scenario) else ({}, None)
    except BadInput:  # not even YAML: that has been said
        return []
    cluster = data.get("cluster")
    asked: list[tuple[str, Any, Callable[[str], object]]] = [("model", data.get("model"), catalog.model)]
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
            file, line = lines.where(field) if lines is not None else (None, None)
            problems += [replace(p, field=field, file=file, line=line) for p in error.problems]
    return problems
