"""Records of commands: what they name exists, their snippets make a scenario right, an open plan is seen."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import yaml

import windtunnel as wt
from windtunnel import api
from windtunnel.commands import COMMANDS, MEANT, asked_by_name, meant_by, swept
from windtunnel.commands.base import Listener
from windtunnel.errors import BadInput
from windtunnel.scenarios.load import load_scenario

BARE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.2-1B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
}
TRAINED: dict[str, Any] = {**BARE, "training": {"seq_len": 2048, "global_batch": 8}}


def _planner_alone(scenario: dict[str, Any]) -> float:
    found = api.plan(scenario, free=False)
    return float(found.best.step_time_s if found.choice is None else found.choice.step_time_s)


@pytest.mark.parametrize("id", COMMANDS.list())
def test_the_type_of_the_result_exists_and_says_itself_as_data(id: str) -> None:
    module, name = COMMANDS.get(id).result.split(":")
    assert callable(getattr(import_module(module), name).to_dict)


@pytest.mark.parametrize("id", [id for id in COMMANDS.list() if id != "memory"])
def test_every_command_has_a_view_that_exists(id: str) -> None:
    """The studio's memory page draws the curves itself."""
    view = COMMANDS.get(id).view
    assert view, id
    if isinstance(view, str):
        assert callable(import_module(f"windtunnel.views.{view}").view)


def test_the_view_of_an_explanation_and_of_a_plan_follows_the_result() -> None:
    step = COMMANDS.get("explain").run({**TRAINED, "plan": {"tp": 1, "mbs": 1}})
    assert COMMANDS.get("explain").view_of(step) == "explain"
    traffic = {"rate_per_s": 4, "num_requests": 8, "input_tokens": 64, "output_tokens": 8}
    served = COMMANDS.get("explain").run({**BARE, "serving": {"engine": "vllm", "traffic": traffic}})
    assert COMMANDS.get("explain").view_of(served) == "explain_serving"


@pytest.mark.parametrize("id", [id for id in COMMANDS.list() if COMMANDS.get(id).snippet])
def test_a_snippet_makes_a_scenario_of_a_model_and_a_cluster_right(id: str) -> None:
    command = COMMANDS.get(id)
    fields = {**BARE, **yaml.safe_load(command.snippet)}
    assert command.missing(BARE) and not command.missing(fields)
    load_scenario(fields)


@pytest.mark.parametrize("id", asked_by_name())
def test_a_missing_section_is_shown(id: str) -> None:
    command = COMMANDS.get(id)
    with pytest.raises(BadInput) as caught:
        command.run({**BARE, "plan": {"tp": 1}}, full=False)
    (section, *_) = command.missing(BARE)
    shown = [p.rule for p in caught.value.problems if p.field == section]
    assert shown and "; for example " in shown[0]
    assert yaml.safe_load(f"{{{shown[0].partition('; for example ')[2]}}}")[section]


def test_sections_mean_a_command() -> None:
    assert [meant_by([COMMANDS.get(id).own_section]) for id in MEANT] == list(MEANT)
    assert meant_by(["training", "run", "serving"]) == "run" and meant_by(["model"]) == "train"
    assert set(MEANT) < set(swept()) <= set(asked_by_name())


@pytest.mark.parametrize("plan", [{}, {"plan": "auto"}, {"plan": {}}])
def test_an_open_plan_is_the_planners_choice_from_python(plan: dict[str, Any]) -> None:
    found = wt.simulate_training({**TRAINED, **plan}, sensitivities=False)
    assert found.step_time_s == pytest.approx(_planner_alone(TRAINED), rel=1e-12)
    assert "plan" in {one.field for one in found.assumed}


def test_a_scenario_object_without_a_plan_is_open_and_one_with_a_plan_is_not() -> None:
    open_plan, stated = load_scenario(TRAINED), load_scenario({**TRAINED, "plan": {"mbs": 1}})
    assert wt.simulate_training(open_plan, sensitivities=False).step_time_s == pytest.approx(_planner_alone(TRAINED))
    said: list[str] = []
    COMMANDS.get("train").run(stated, listener=Listener(note=said.append), full=False)
    assert said == []


def test_who_listens_hears_the_choice_and_the_scenario_that_is_predicted() -> None:
    said, taken = list[str](), list[Any]()
    listener = Listener(note=said.append, planned=lambda source, settings: taken.append((source, settings)))
    found = COMMANDS.get("fit").run(TRAINED, ["training.global_batch=4"], listener=listener)
    assert found.fits and "which recommends" in said[0]
    ((source, settings),) = taken
    assert source["plan"] and source["training"]["global_batch"] == 4 and settings == ()


def test_all_axes_are_searched_where_the_scenario_sets_every_one() -> None:
    axes = {"tp": 2, "pp": 1, "vpp": 1, "cp": 1, "ep": 1, "zero": 1, "mbs": 4, "recompute": "none"}
    stated = {**TRAINED, "plan": axes}
    assert api.plan(stated).proof.candidates > 1
    assert api.plan(stated, free=False).proof.candidates == 1
    for open_still in ({"objective": "step_time"}, {"limits": {"memory_fraction": 0.9}}):
        assert api.plan({**stated, "search": open_still}).proof.candidates > 1
    assert api.plan({**stated, "search": {"space": {"tp": [2]}}}).proof.candidates == 1
