"""Partial pooling: what a pair without rows takes over from measured software and generations."""

from __future__ import annotations

import math
from typing import Any

import pytest

from windtunnel.cost.coefficient_files import lineage
from windtunnel.cost.coefficients import resolve
from windtunnel.cost.pooled import pooled_factors
from windtunnel.validation.fit.pooling import Observation, pool

DEFAULTS = {"gemm_fraction.bf16": {"sigma": 0.1, "low": 0.2, "high": 0.95}}


def seen(software: str, root: str, generation: str, ratio: float) -> Observation:
    return Observation("gemm_fraction.bf16", root, software, generation, ratio, 0.1)


def test_an_effect_that_all_generations_of_a_root_share_is_found_and_shrunk() -> None:
    data = [
        seen(s, "r", g, -2.0 + d) for s, g, d in (("a", "x", 0.1), ("a", "y", -0.1), ("b", "x", 0.05), ("b", "z", 0))
    ]
    data += [seen("c", "c", g, 0.0) for g in ("x", "y", "z")]
    effects, scales = pool(data, DEFAULTS)
    factor = pooled_factors(effects, "r", "unseen", "w")["gemm_fraction.bf16"]
    assert math.exp(-0.2) <= factor < math.exp(-0.12)
    assert scales["root"] > scales["cell"]
    assert pooled_factors(effects, "new", "new", "w")["gemm_fraction.bf16"] == pytest.approx(1.0)


def test_scatter_without_pattern_moves_nothing_far() -> None:
    data = [seen(s, s, g, (-1.0) ** (i + j)) for i, s in enumerate("abcd") for j, g in enumerate("wxyz")]
    effects, _ = pool(data, DEFAULTS)
    assert pooled_factors(effects, "a", "a", "v")["gemm_fraction.bf16"] == pytest.approx(1.0, abs=0.02)


def entry(effect: float) -> dict[str, Any]:
    return {"gemm_fraction.bf16": {"root": {"torchtune": effect}, "low": 0.2, "high": 0.75}}


def test_only_pairs_without_rows_take_pooled_values_and_bounds_hold() -> None:
    plain = resolve("torchtune", "h100-sxm-80gb", "hopper", pooled={})
    scaled = resolve("torchtune", "h100-sxm-80gb", "hopper", pooled=entry(-0.2))
    assert scaled.gemm_fraction["bf16"] == pytest.approx(plain.gemm_fraction["bf16"] * math.exp(-0.2))
    assert scaled.gemm_fraction["fp8"] == plain.gemm_fraction["fp8"]
    assert scaled.grades["gemm_fraction.bf16"] == "analytic" and "hopper" in scaled.basis
    held = resolve("torchtune", "h100-sxm-80gb", "hopper", pooled=entry(3.0))
    assert held.gemm_fraction["bf16"] == 0.75
    measured = resolve("torchtune", "a100-sxm-80gb", "ampere", pooled=entry(-0.2))
    assert measured == resolve("torchtune", "a100-sxm-80gb", "ampere", pooled={})


def test_leaving_a_level_out_hides_its_fit() -> None:
    fitted = resolve("torchtune", "a100-sxm-80gb", "ampere")
    without = resolve("torchtune", "a100-sxm-80gb", "ampere", without=frozenset({("torchtune", "ampere")}), pooled={})
    assert fitted.grades["gemm_fraction.bf16"] == "fitted"
    assert without.grades.get("gemm_fraction.bf16") != "fitted"
    assert without.gemm_fraction["bf16"] != fitted.gemm_fraction["bf16"]


def test_lineage_ends_at_the_root() -> None:
    assert lineage("megatron_core") == ("megatron_core",)
    assert lineage("nemo") == ("nemo", "megatron_core")


def test_provenance_names_pooled_values() -> None:
    from windtunnel import catalog
    from windtunnel.cost.coefficients import coefficients
    from windtunnel.cost.provenance import provenance

    device = catalog.device("h100-sxm-80gb")
    used = coefficients("torchtune", device)
    assert "gemm_fraction.bf16" in used.pooled
    entry = provenance("torchtune", device)["gemm_fraction.bf16"]
    assert entry.value == used.gemm_fraction["bf16"] and entry.grade == "analytic" and "pooled" in entry.source
    assert not coefficients("torchtune", catalog.device("a100-sxm-80gb")).pooled
