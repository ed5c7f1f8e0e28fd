"""Formats belong to devices and to frameworks: who trains in what, from which release on."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.exporters.target import options
from windtunnel.specs.number_formats import MATRIX_FORMAT
from windtunnel.stacks.formats import narrow_formats, trained_in, trains
from windtunnel.training.predict import prepare


def step(framework: str, precision: str, device: str, version: str = "") -> dict[str, Any]:
    return {
        "model": "meta-llama/Llama-3.2-1B",
        "cluster": {"device": device, "nodes": 1, "devices_per_node": 8},
        "training": {
            "seq_len": 2048,
            "global_batch": 16,
            "framework": framework,
            "precision": precision,
            "framework_version": version,
        },
        "plan": {"zero": 1},
    }


def refusal(*case: str) -> str:
    with pytest.raises(BadInput) as error:
        prepare(step(*case))
    assert error.value.exit_code == 2
    return str(error.value)


def test_megatron_trains_in_the_recipes_that_its_arguments_name() -> None:
    """The choices of `--fp8-recipe` and `--fp4-recipe` as Megatron-LM publishes them."""
    known = options("megatron")
    recipes = {"fp8": "tensorwise", "fp8_block": "blockwise", "mxfp8": "mxfp8", "fp8_rowwise": "rowwise"}
    for precision, recipe in recipes.items():
        assert trains("megatron_core", precision) == (known.refuses("--fp8-recipe", recipe) is None), precision
    assert trains("megatron_core", "nvfp4") == (known.refuses("--fp4-recipe", "nvfp4") is None)
    assert not trains("megatron_core", "int8")


def test_a_release_trains_in_what_it_brought() -> None:
    """Megatron-LM's history: mxfp8 on 2025-03-22, NVFP4 on 2025-09-06."""
    assert [trains("megatron_core", "mxfp8", version) for version in ("2025-02", "2025-04", "")] == [False, True, True]
    text = refusal("megatron_core", "nvfp4", "b200-sxm-180gb", "2025-06")
    assert "before 2025-09" in text
    assert "mxfp8" in text


@pytest.mark.parametrize(
    ("framework", "precision", "device"),
    [
        ("megatron_core", "int8", "h100-sxm-80gb"),
        ("megatron_deepspeed", "fp8", "h100-sxm-80gb"),
        ("torchtune", "mxfp8", "b200-sxm-180gb"),
        ("megatron_core", "mxfp8", "h100-sxm-80gb"),
        ("megatron_core", "nvfp4", "a100-sxm-80gb"),
    ],
)
def test_what_nobody_runs_is_refused_with_a_list_of_what_runs(framework: str, precision: str, device: str) -> None:
    listed = refusal(framework, precision, device).rpartition("it trains in ")[2].split("\n")[0].rstrip(")").split(", ")
    assert "bf16" in listed
    assert precision not in listed


def test_every_format_has_a_source_and_sixteen_bits_are_everybodys() -> None:
    for framework in ("megatron_core", "torchtitan", "deepspeed", "jax", "transformers", "nemo", "pax", "colossalai"):
        known = narrow_formats(framework)
        assert known
        assert all(entry["source"] for entry in known.values())
        assert {"fp32", "tf32", "fp16", "bf16"} <= set(trained_in(framework))
        assert set(known) <= set(MATRIX_FORMAT)


def test_a_search_leaves_out_what_the_framework_does_not_train_in() -> None:
    scenario = step("megatron_core", "bf16", "h100-sxm-80gb")
    scenario["plan"] = {"tp": 1, "pp": 1, "cp": 1, "zero": 1, "mbs": 1}
    scenario["search"] = {"objective": "step_time", "space": {"precision": ["bf16", "fp8", "int8", "mxfp8"]}}
    found = api.plan(scenario)
    assert "megatron_core does not train in int8" in found.excluded
    assert "h100-sxm-80gb has no microscaled rate, which precision mxfp8 needs" in found.excluded
