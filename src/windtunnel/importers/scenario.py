"""A scenario from wherever it is: a file, a mapping or itself; and the model that it names, imports or spells out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput, ProblemList
from windtunnel.specs.scenario import ModelFile, Scenario

if TYPE_CHECKING:
    from windtunnel.specs.model import ModelSpec

Source = str | Path | dict[str, Any] | Scenario


def load(source: Source, overrides: Sequence[str] = ()) -> tuple[Scenario, Any, Path]:
    """A scenario from a file, a mapping or itself; with its source map and the folder that paths are relative to."""
    if isinstance(source, Scenario):
        if overrides:
            from windtunnel.specs.loader import load_scenario

            return load_scenario(source.model_dump(mode="json", exclude_unset=True), list(overrides)), None, Path()
        return source, None, Path()
    from windtunnel.specs.loader import load_scenario_with_source

    scenario, lines = load_scenario_with_source(source, list(overrides))
    folder = Path(source).parent if isinstance(source, (str, Path)) else Path()
    return scenario, lines, folder


def resolve_model(scenario: Scenario, folder: Path) -> ModelSpec:
    """The architecture a scenario names, imports or spells out."""
    from windtunnel import catalog
    from windtunnel.specs.model import ModelSpec

    model = scenario.model
    if isinstance(model, ModelSpec):
        return model
    if isinstance(model, ModelFile):
        from windtunnel.importers.hf_config import from_hf_config

        spec = from_hf_config(folder / model.config)
        if model.num_hidden_layers:
            spec = spec.model_copy(update={"num_hidden_layers": model.num_hidden_layers})
        return spec
    return catalog.model(model)


def attempt(field: str, run: Callable[[], Any], problems: ProblemList) -> Any:
    """What `run` returns; None where it raises `BadInput`, whose problems are noted under `field`."""
    try:
        return run()
    except BadInput as error:
        for problem in error.problems:
            if problem.file:  # it knows its own file (an imported config.json)
                problems.extend([problem])
                continue
            inside = problem.field in (field, "") or problem.field.startswith(f"{field}.")
            name = problem.field or field if inside else f"{field}.{problem.field}"
            problems.add(name, problem.value, problem.rule, nearest=problem.nearest)
        return None
