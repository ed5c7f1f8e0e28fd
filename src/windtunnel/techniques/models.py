"""What a technique may ask of a scenario's model before anything is resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.errors import BadInput
from windtunnel.specs.model import ModelSpec

if TYPE_CHECKING:
    from windtunnel.specs.scenario import Scenario


def known_model(scenario: Scenario) -> ModelSpec | None:
    """The model where the scenario states it or the catalogue has it; None for files, which are read later."""
    from windtunnel import catalog

    given = scenario.model
    if isinstance(given, ModelSpec):
        return given
    try:
        return catalog.model(given) if isinstance(given, str) else None
    except BadInput:
        return None


def without_experts(scenario: Scenario) -> str | None:
    """Why a technique of mixtures of experts does not apply; None where it may."""
    model = known_model(scenario)
    return "the model has no experts" if model is not None and not model.num_experts else None


def without_linear_attention(scenario: Scenario) -> str | None:
    """Why a technique of linear attention does not apply; None where it may."""
    model = known_model(scenario)
    linear = model is None or model.family == "linear_attention" or model.linear_num_value_heads > 0
    return None if linear else "the model has no linear attention"
