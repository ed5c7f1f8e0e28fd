"""Reading what commands are given: a scenario, a stored result, or either."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windtunnel.training.results.training_result import TrainingResult

_MOST_BYTES = 1 << 29


def scenario_source(scenario: str) -> str | dict[str, Any]:
    """The scenario argument as `api` takes it: a path, or the mapping on standard input when it is `-`."""
    if scenario != "-":
        from windtunnel.scenarios.source import file_of

        scenario = str(file_of(scenario))
        _refuse_other_formats(scenario)
        return scenario
    from windtunnel.errors import BadInput
    from windtunnel.scenarios.read import parse_mapping
    from windtunnel.scenarios.yaml_text import MAX_BYTES

    try:
        return parse_mapping(sys.stdin.read(MAX_BYTES + 1), "standard input")
    except UnicodeDecodeError:
        raise BadInput("standard input: must be UTF-8 text") from None


def _refuse_other_formats(path: str) -> None:
    """Say of a launch file or a model config that `import` reads it, in place of a line for each of its fields."""
    from windtunnel.errors import BadInput
    from windtunnel.files import reading
    from windtunnel.scenarios.read import parse_mapping

    try:
        text = reading.read_text(path, most_bytes=_MOST_BYTES)
    except BadInput:
        return  # whoever reads it next says what is wrong with it
    try:
        data = parse_mapping(text, path)
    except BadInput:
        data = {}
    if "cluster" in data or "training" in data or "serving" in data or "step_time_s" in data:
        return
    from windtunnel.importers.formats import detect

    try:
        found = detect(text, path)
    except BadInput:
        return
    what = "a model's config.json" if found == "hf" else f"in the format {found}"
    raise BadInput(f"{path}: is {what}, not a scenario: `windtunnel import {path} -o scenario.yaml` makes one of it")


def stored_result(path: str) -> dict[str, Any] | None:
    """What `train --json` wrote to a file, or None when the file is something else (a scenario).

    Raises:
        BadInput: the file cannot be read.
    """
    data = _stored(path)
    return data if data is not None and "step_time_s" in data else None


def stored_serving(path: str) -> dict[str, Any] | None:
    """What `serve --json` wrote to a file, or None when the file is something else.

    Raises:
        BadInput: the file cannot be read.
    """
    data = _stored(path)
    return data if data is not None and "ttft_s" in data and "tpot_s" in data else None


def serves(path: str) -> bool:
    """Whether a file is a scenario of serving alone, or a result of `serve --json`."""
    from windtunnel.errors import BadInput
    from windtunnel.files import reading
    from windtunnel.scenarios.read import parse_mapping

    try:
        if path == "-" or stored_serving(path) is not None:
            return path != "-"
        data = parse_mapping(reading.read_text(path, most_bytes=_MOST_BYTES), path)
    except BadInput:
        return False  # whoever reads it next says what is wrong with it
    return "serving" in data and "training" not in data


def _stored(path: str) -> dict[str, Any] | None:
    """The JSON object in a file, or None when it holds something else."""
    from windtunnel.errors import BadInput
    from windtunnel.files import reading
    from windtunnel.files.parsing import json_of

    file = Path(path)
    if file.suffix.lower() != ".json":
        return None
    try:
        data = json_of(reading.read_text(file, most_bytes=_MOST_BYTES))
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}") from None
    return data if isinstance(data, dict) else None


def result_of(path: str, overrides: Sequence[str], *, trace: bool = False) -> TrainingResult:
    """The stored result in a file, or the prediction of the scenario in it.

    A plan that the scenario leaves open is the planner's recommendation.
    """
    from windtunnel.errors import BadInput

    data = stored_result(path) if path != "-" else None
    if data is None:
        from windtunnel.cli.output import note
        from windtunnel.commands.base import Listener
        from windtunnel.commands.train import run

        return run(scenario_source(path), tuple(overrides), listener=Listener(note=note), trace=trace)
    if overrides:
        raise BadInput(f"{path}: --set changes scenarios, not stored results")
    return read_result(path, data)


def planner_choices(assumed: Any) -> tuple[str, ...]:
    """What a planner chose for a stored result, as its list of assumptions says."""
    from windtunnel.training.explain.assumptions import PLANNED

    entries = [a for a in assumed if isinstance(a, dict)] if isinstance(assumed, list) else []
    return tuple(str(a.get("field")) for a in entries if a.get("why") == PLANNED)


def read_result(path: str, data: dict[str, Any]) -> TrainingResult:
    """The result that a file's plain data stands for.

    Raises:
        BadInput: fields are missing or of another kind.
    """
    from windtunnel.errors import BadInput
    from windtunnel.training.results.read_result import result_from_dict

    try:
        return result_from_dict(data)
    except KeyError as error:
        raise BadInput(f"{path}: not a complete result of `train --json`: {error.args[0]} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{path}: not a complete result of `train --json`: {error}") from None


def serving_figures(path: str, overrides: Sequence[str]) -> dict[str, Any]:
    """The stored result of `serve --json` in a file, or what the scenario in it gives, as plain data."""
    from windtunnel import api
    from windtunnel.errors import BadInput

    data = stored_serving(path)
    if data is None:
        return api.simulate_serving(path, overrides=tuple(overrides)).to_dict()
    if overrides:
        raise BadInput(f"{path}: --set changes scenarios, not stored results")
    return data
