"""Formats of weights that a serving section leaves open: those that the checkpoint is released in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.catalog.checkpoints import ReleasedFormat, released_format
from windtunnel.specs.scenario import ModelFile, Scenario
from windtunnel.specs.serving import ServingSpec

if TYPE_CHECKING:
    from windtunnel.specs.model import ModelSpec

Assumed = tuple[tuple[str, object, str], ...]
"""(field, value, why) of what a scenario leaves open."""
Released = tuple[ServingSpec, Assumed]
"""A serving section whose formats of weights are decided, and what was assumed for that."""
SIXTEEN_BITS = ReleasedFormat(
    {"weights": "bf16"}, "not stated; checkpoints come in 16 bits unless the catalogue lists them"
)
"""What checkpoints are released in of which nothing else is known."""


def with_released_formats(serving: ServingSpec, scenario: Scenario, model: ModelSpec, folder: Path) -> Released:
    """Decide the formats of weights that a scenario leaves open as an engine does that loads the model's checkpoint.

    Args:
        serving: section of the scenario, with what techniques set.
        scenario: says how the model is spelled, which may name a format, or which `config.json` describes it.
        model: what is served.
        folder: that paths are relative to.
    """
    precision = serving.precision
    if precision.weights is not None:
        return serving, ()
    found = _released(scenario, model, folder) or SIXTEEN_BITS
    given = {name: value for name, value in found.formats.items() if getattr(precision, name) is None}
    decided = precision.model_copy(update=given)
    assumed = tuple((f"serving.precision.{name}", value, found.why) for name, value in given.items())
    return serving.model_copy(update={"precision": decided}), assumed


def _released(scenario: Scenario, model: ModelSpec, folder: Path) -> ReleasedFormat | None:
    spelled = scenario.model
    if isinstance(spelled, ModelFile):
        from windtunnel.importers.hf_config import checkpoint_formats

        formats = checkpoint_formats(spelled.located(folder))
        if formats is not None:
            shown = spelled.config if isinstance(spelled.config, str) else "the model's configuration"
            return ReleasedFormat(formats, f"not stated; quantization_config of {shown}")
    return released_format(*([spelled] if isinstance(spelled, str) else []), model.name)
