"""A device without measured runs takes the coefficients of its vendor's nearest generation, and wider bands."""

from __future__ import annotations

import math
from functools import cache

import pytest

from windtunnel import api, catalog
from windtunnel.cost import coefficients as cost
from windtunnel.cost.clock import at_clock
from windtunnel.cost.coefficient_files import coefficient_file, levels_of, nearest_generations
from windtunnel.cost.pooled import pooled_factors
from windtunnel.cost.provenance import provenance
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.uncertainty.comparable_runs import residuals

UNMEASURED = {
    "mi355x": ("mi300x", "mi325x"),
    "mi350x": ("mi300x", "mi325x"),
    "mi455x": ("mi300x", "mi325x"),
    "mi250x": ("mi300x", "mi325x"),
    "rubin": ("b200-sxm-180gb", "gb200", "gb300"),
    "b300-sxm-270gb": ("b200-sxm-180gb", "gb200", "gb300"),
    "gh200": ("h100-sxm-80gb", "h200-sxm-141gb"),
}
"""Device without rows → measured devices of its vendor's nearest generation."""
SOFTWARE = ("torchtitan", "megatron_core", "rocm_megatron", "jax")


@cache
def run(device: str, framework: str) -> TrainingResult:
    scenario = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": device, "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 8192, "global_batch": 16, "precision": "bf16", "framework": framework},
        "plan": {"zero": 3, "mbs": 1, "recompute": "full"},
    }
    return api.simulate_training(scenario, sensitivities=False)


def matrix_fraction(device: str, framework: str) -> float:
    spec = catalog.device(device)
    return at_clock(spec, cost.coefficients(framework, spec), 1.0).gemm_fraction["bf16"]


@pytest.mark.parametrize("framework", SOFTWARE)
@pytest.mark.parametrize("device", UNMEASURED)
def test_no_unmeasured_device_uses_its_peak_better_than_mechanisms_allow(device: str, framework: str) -> None:
    """More bytes an operation, and a published rate of its own products, are what may raise the share of the peak."""

    def bytes_per_flop(name: str) -> float:
        spec = catalog.device(name)
        return spec.memory_bytes_per_s / spec.peak("bf16")

    allowed = max(
        run(other, framework).mfu
        * max(1.0, bytes_per_flop(device) / bytes_per_flop(other))
        * max(1.0, matrix_fraction(device, framework) / matrix_fraction(other, framework))
        for other in UNMEASURED[device]
    )
    assert run(device, framework).mfu <= 1.02 * allowed


@pytest.mark.parametrize("framework", SOFTWARE)
@pytest.mark.parametrize("device", ("mi355x", "mi350x", "mi455x", "rubin"))
def test_bands_are_as_wide_as_those_of_the_devices_whose_coefficients_hold(
    device: str, framework: str, request: pytest.FixtureRequest
) -> None:
    if (device, framework) == ("mi355x", "torchtitan"):
        reason = "missed: 0.895 of the width on MI300X, whose own rows under torchtitan scatter more since the refit"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))

    def width(name: str) -> float:
        found = run(name, framework)
        return math.log(found.interval.high / found.interval.low)

    measured = {r.subject.device for r in residuals() if r.subject.software == framework}
    for other in UNMEASURED[device]:
        if other in measured:
            assert width(device) >= 0.9 * width(other), other


def test_b200_and_mi355x_are_near_each_other_as_published() -> None:
    """AMD's own comparison under Primus's torchtitan, 70B in bf16: 1.16 times B200 (ROCm blogs, 2025-12-02)."""
    assert 0.75 < run("b200-sxm-180gb", "torchtitan").step_time_s / run("mi355x", "torchtitan").step_time_s < 1.25


def test_products_of_mi350x_follow_from_its_power_and_mi355xs_rate() -> None:
    """0.88 of PyTorch's 1,117 and AITER's 1,188 TFLOP/s (HipKittens, analysis/mi350x_data_to_log.json, 8,192 cubed)."""
    assert 0.88 * 1116.7 / 2306.9 < matrix_fraction("mi350x", "generic") < 0.88 * 1188.0 / 2306.9


def test_every_generation_that_stands_in_is_one_of_the_same_vendor() -> None:
    vendor = {}
    for name in catalog.devices():
        spec = catalog.device(name)
        vendor[spec.generation] = spec.vendor
    table = coefficient_file("generations")["nearest"]
    for generation, entry in table.items():
        assert vendor[generation] == vendor[entry["generation"]], generation
        assert len(nearest_generations(generation)) <= len(table)


def test_stand_ins_lie_below_the_generation_and_keep_watts_and_links_to_themselves() -> None:
    assert levels_of("gpu", "cdna5", "mi455x") == ("gpu", "cdna3", "cdna4", "cdna5", "mi455x")
    blackwell, rubin = (cost.resolve("torchtitan", name, name, "gpu") for name in ("blackwell", "rubin"))
    assert rubin.gemm_fraction == blackwell.gemm_fraction
    assert rubin.board_j_per_flop == 0.0 < blackwell.board_j_per_flop
    assert "stands in for rubin" in rubin.basis


def test_effects_come_from_the_nearest_generation_with_rows() -> None:
    data = {"memory_fraction": {"generation": {"cdna3": 0.1}, "cell": {"megatron_core on cdna3": 0.2}}}
    same = pooled_factors(data, "megatron_core", "rocm_megatron", "cdna3")
    assert pooled_factors(data, "megatron_core", "rocm_megatron", "cdna4") == same
    assert pooled_factors(data, "megatron_core", "rocm_megatron", "tpu_v4") == {"memory_fraction": 1.0}
    links = {"scale_up_scale": {"generation": {"cdna3": 0.1}}}
    assert pooled_factors(links, "jax", "jax", "cdna4") == {"scale_up_scale": 1.0}


def test_what_was_fitted_on_another_generation_is_no_fit_of_this_one() -> None:
    found = provenance("torchtitan", catalog.device("rubin"))["gemm_fraction.bf16"]
    assert (found.grade, found.relative_error, found.level) == ("analytic", None, "blackwell")
