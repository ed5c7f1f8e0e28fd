"""Frozen weights under a narrow format are cast once, when they are loaded, and held in the format of the products."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.cost.quantised_base import BASE_BYTES
from windtunnel.errors import BadInput
from windtunnel.training.predict import prepare, simulate_training


def _scenario(precision: str, framework: str = "megatron_bridge", **lora: Any) -> dict[str, Any]:
    training = {"seq_len": 4096, "global_batch": 8, "framework": framework, "phase": "lora", "precision": precision}
    return {
        "model": "meta-llama/Llama-3.1-70B",
        "cluster": {"device": "b200-sxm-180gb", "nodes": 1, "devices_per_node": 8},
        "training": training | {"lora": {"rank": 16, "targets": ["qkv", "proj"], **lora}},
        "plan": {"tp": 1, "zero": 1, "mbs": 1, "recompute": {"policy": "full"}},
    }


@pytest.mark.parametrize("precision", ["fp8", "mxfp8", "nvfp4"])
def test_a_framework_that_holds_them_casts_nothing_in_a_step(precision: str) -> None:
    held = simulate_training(_scenario(precision), sensitivities=False)
    stated = simulate_training(_scenario(precision, quantized_base=precision), sensitivities=False)
    cast = simulate_training(_scenario(precision, quantized_base=False), sensitivities=False)
    assert held.step_time_s == stated.step_time_s < cast.step_time_s
    assert held.memory.at_peak == stated.memory.at_peak


def test_a_70b_adapter_in_four_bits_fits_where_sixteen_do_not() -> None:
    """Two copies of 4.5 bits a weight are nine sixteenths of 16 bits, embedding and head apart."""
    held = simulate_training(_scenario("nvfp4"), sensitivities=False).memory.at_peak["weights"]
    whole = simulate_training(_scenario("nvfp4", quantized_base=False), sensitivities=False).memory.at_peak["weights"]
    assert held / whole == pytest.approx(BASE_BYTES["nvfp4"] / 2.0, rel=0.06)


def test_other_software_and_other_formats_keep_sixteen_bits() -> None:
    for precision, framework in (("fp8", "transformers"), ("bf16", "megatron_bridge")):
        stated = simulate_training(_scenario(precision, framework, quantized_base=False), sensitivities=False)
        assert simulate_training(_scenario(precision, framework), sensitivities=False).step_time_s == stated.step_time_s


def test_mxfp4_multiplies_as_four_bits_and_needs_their_units() -> None:
    """MI355X has units for it, MI300X has not; a step is shorter than in eight bits of the same kind of scaling."""
    given = _scenario("mxfp8", "rocm_megatron", quantized_base=False)
    given["cluster"] = {"device": "mi355x", "nodes": 1, "devices_per_node": 8}
    eight = simulate_training(given, sensitivities=False)
    four = simulate_training({**given, "training": given["training"] | {"precision": "mxfp4"}}, sensitivities=False)
    assert four.step_time_s < eight.step_time_s
    with pytest.raises(BadInput, match=r"training.precision.*mi300x has not"):
        prepare(given | {"cluster": {**given["cluster"], "device": "mi300x"}})
