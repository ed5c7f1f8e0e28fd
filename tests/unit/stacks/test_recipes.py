"""Recipes by name: what a name stands for, what it fills, and what is said of another machine."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.scenarios.load import load_scenario
from windtunnel.scenarios.open_plan import axes_left_to_planner
from windtunnel.stacks import recipes
from windtunnel.stacks.recipes import Recipe, recipe_asked, recipe_named

OLD = Recipe(
    name="tiny_pretrain_8gpu_h100",
    framework="megatron_bridge",
    since="2025-11",
    source="a public file",
    model="meta-llama/Llama-3.2-1B",
    device="h100",
    devices=8,
    training={"seq_len": 2048, "global_batch": 64, "precision": "bf16", "cuda_graphs": "none"},
    plan={"tp": 2, "mbs": 2, "overlap": {"tp": True, "p2p": False}},
    environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
)
NEW = Recipe(**{**{f: getattr(OLD, f) for f in OLD.__slots__}, "since": "2026-04", "plan": {"tp": 1, "mbs": 4}})


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    own = "megatron_bridge", OLD.name
    monkeypatch.setattr(
        recipes, "_records", lambda framework, name: (OLD, NEW) if (framework, name.lower()) == own else ()
    )
    monkeypatch.setattr(recipes, "_blocks", lambda framework: {OLD.name: (OLD.name, "")} if framework == own[0] else {})
    monkeypatch.setattr(recipes, "owners", lambda: ("megatron_bridge",))


def scenario(**training: Any) -> dict[str, Any]:
    return {"training": {"recipe": "tiny_pretrain_8gpu_h100", **training}}


def test_a_name_stands_for_the_record_of_its_release() -> None:
    assert recipe_named("TINY_pretrain_8gpu_h100") is NEW
    assert recipe_named(OLD.name, "megatron_bridge", "26.02") is OLD
    assert recipe_asked(f"{OLD.name}@0.2.0") is OLD
    assert (
        recipe_named(OLD.name, "megatron_bridge", f"{NEW.since}-01" if NEW.since.count("-") == 1 else NEW.since) is NEW
    )
    assert recipe_named(OLD.name, "megatron_bridge", "25.07") is OLD  # none is older: the first
    assert recipe_named(OLD.name, "nemo") is None and recipe_named("other") is None


def test_a_recipe_alone_is_a_scenario() -> None:
    found = load_scenario(scenario())
    assert found.training is not None and found.model == OLD.model
    assert (found.training.framework, found.training.seq_len) == ("megatron_bridge", 2048)
    assert found.training.expandable_segments is True and (found.plan.tp, found.plan.mbs) == (1, 4)
    assert found.cluster.device == "h100" and found.cluster.nodes == 1  # type: ignore[union-attr]
    assert axes_left_to_planner(scenario()) == ()
    assert axes_left_to_planner({**scenario(), "plan": "auto"}) == ("plan",)


def test_what_is_stated_wins_over_the_recipe_and_settings_count_as_stated() -> None:
    stated = scenario(precision="fp8", framework_version="26.02") | {"plan": {"mbs": 1, "overlap": {"p2p": True}}}
    found = load_scenario(stated, ["training.global_batch=128"])
    assert found.training is not None
    assert (found.training.precision, found.training.global_batch, found.training.cuda_graphs) == ("fp8", 128, "none")
    assert (found.plan.tp, found.plan.mbs, found.plan.overlap.tp, found.plan.overlap.p2p) == (2, 1, True, True)


def test_another_device_or_count_is_said() -> None:
    other = {**scenario(), "cluster": {"device": "a100-sxm-80gb", "nodes": 2, "devices_per_node": 8}}
    found = {a.field: a for a in api.simulate_training(other, sensitivities=False).assumed}
    assert found["training.recipe"].value == OLD.name and "a public file" in found["training.recipe"].why
    assert "made for h100" in found["training.recipe.device"].why
    assert "made for 8 devices" in found["training.recipe.devices"].why
    made_for = {a.field for a in api.simulate_training(scenario(), sensitivities=False).assumed}
    assert "training.recipe" in made_for and "training.recipe.devices" not in made_for


def test_an_unknown_recipe_is_one_clear_line() -> None:
    with pytest.raises(BadInput, match=r"training.recipe = .*is no recipe.*did you mean 'tiny_pretrain_8gpu_h100'"):
        load_scenario(scenario(recipe="tiny_pretrain_8gpus_h100"))


def test_the_records_of_the_files_are_scenarios_and_a_commit_is_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    name = "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config"
    newest, before = recipe_named(name), recipe_named(name, "megatron_bridge", "aabb29d0ed15")
    assert newest is not None and before is not None
    assert (before.plan["overlap"]["moe_a2a"], newest.plan["overlap"]["moe_a2a"]) == (False, True)
    assert recipe_named(name, "megatron_bridge", "2026-07-18") == before
    alias = recipe_named("deepseek_v3_pretrain_config")
    assert alias is not None and (alias.model, alias.plan["ep"] > 1) == ("deepseek-ai/DeepSeek-V3", True)
    found = load_scenario({"training": {"recipe": "llama3_70b_peft_8gpu_h100_bf16_config"}})
    assert found.training is not None and found.training.phase == "lora" and found.training.lora is not None
