"""Step 3, stack: names of software as scenarios have them, and what a recipe sets where the scenario is silent."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

from windtunnel.errors import Problem, nearest_name
from windtunnel.scenarios.fields import Fields
from windtunnel.specs.workload import FOUR_BITS
from windtunnel.stacks.names import framework_named, value_named
from windtunnel.stacks.recipes import Recipe, recipe_asked, recipe_names

_SPOKEN = ("optimizer", "precision", "attention", "moe_dispatcher")
_OF_SECTIONS = ("overlap", "offload", "lora")
"""Sections of which a scenario may state one field and leave others to its recipe."""


def with_stack(fields: Fields) -> Fields:
    """The fields with usual names of software, and with those of the recipe that they name."""
    training = fields.data.get("training")
    if not isinstance(training, dict):
        return fields
    _usual_names(training)
    name = training.get("recipe")
    if not isinstance(name, str) or not name:
        return fields
    framework = training.get("framework")
    asked = framework if isinstance(framework, str) else ""
    recipe = recipe_asked(name, asked, str(training.get("framework_version") or ""))
    if recipe is None:
        return replace(fields, problems=(*fields.problems, _unknown(name, asked)))
    _fill(fields.data, recipe)
    return fields


def _usual_names(training: dict[str, Any]) -> None:
    """Put what a scenario calls the software, optimizer and formats in the place of other spellings."""
    framework = training.get("framework")
    if isinstance(framework, str):
        training["framework"] = framework_named(framework) or framework
    for field in _SPOKEN:
        if isinstance(value := training.get(field), str):
            training[field] = value_named(field, value)
    precision, lora = training.get("precision"), training.get("lora")
    if precision in FOUR_BITS and (training.get("phase") == "lora" or isinstance(lora, dict)):
        training["precision"] = "bf16"  # four bits are what frozen weights are stored in; products have sixteen
        training["lora"] = {"quantized_base": precision, **(lora if isinstance(lora, dict) else {})}


def _unknown(name: str, framework: str) -> Problem:
    owner = f" of {framework}" if framework else ""
    rule = f"is no recipe{owner} that the catalogue has (`windtunnel stacks {framework or 'NAME'}` lists them)"
    return Problem("training.recipe", rule, name, nearest_name(name, recipe_names(framework)))


def _fill(data: dict[str, Any], recipe: Recipe) -> None:
    """Set what the recipe states and the scenario does not."""
    training = data["training"]
    training.setdefault("framework", recipe.framework)
    if "expandable_segments:True" in recipe.environment.get("PYTORCH_CUDA_ALLOC_CONF", ""):
        training.setdefault("expandable_segments", True)
    _complete(training, recipe.training)
    if recipe.model:
        data.setdefault("model", deepcopy(recipe.model))
    if recipe.device and recipe.devices and "cluster" not in data:
        nodes = max(1, recipe.devices // recipe.devices_per_node)
        data["cluster"] = {"device": recipe.device, "nodes": nodes, "devices_per_node": recipe.devices_per_node}
    plan = data.setdefault("plan", {})
    if plan is None:
        plan = data["plan"] = {}
    if isinstance(plan, dict):  # `auto` leaves the plan to the planner
        _complete(plan, recipe.plan)


def _complete(section: dict[str, Any], recipe: dict[str, Any]) -> None:
    for name, value in recipe.items():
        if name in _OF_SECTIONS and isinstance(value, dict) and isinstance(section.get(name), dict):
            section[name] = {**deepcopy(value), **section[name]}
        else:
            section.setdefault(name, deepcopy(value))
