"""The model of a scenario: a catalogue entry, an imported configuration, or one that is spelled out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.specs.scenario import ModelFile, Scenario

if TYPE_CHECKING:
    from windtunnel.specs.model import ModelSpec


def resolve_model(scenario: Scenario, folder: Path) -> ModelSpec:
    """The architecture that a scenario names, imports or spells out; paths are relative to `folder`."""
    from windtunnel.catalog.model_names import checkpoint
    from windtunnel.specs.model import ModelSpec

    model = scenario.model
    if isinstance(model, ModelSpec):
        return model
    if isinstance(model, ModelFile):
        from windtunnel.importers.hf_config import from_hf_config

        spec = from_hf_config(model.located(folder))
        if model.num_hidden_layers:
            spec = spec.model_copy(update={"num_hidden_layers": model.num_hidden_layers})
        return spec
    return checkpoint(model).model


def tuned_from(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """The model that is taken for a checkpoint which the catalogue does not have by name: field, value, why."""
    from windtunnel.catalog.model_names import checkpoint

    if isinstance(scenario.model, str) and scenario.model:
        found = checkpoint(scenario.model)
        if found.why is not None:
            yield "model", found.model.name, found.why
