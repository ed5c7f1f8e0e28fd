"""Power limits: boards of one generation, caps, and what the user is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windtunnel import catalog
from windtunnel.cost.clock import at_clock, capped_clock, joules_per_flop, power_limit
from windtunnel.cost.coefficients import coefficients
from windtunnel.specs.device import DeviceSpec


def bf16(device: DeviceSpec, cap: float | None = None, software: str = "generic") -> float:
    chosen = coefficients(software, device)
    return at_clock(device, chosen, capped_clock(device, chosen, cap)).gemm_fraction["bf16"]


H100, A100, B200 = (catalog.device(x) for x in ("h100-sxm-80gb", "a100-sxm-80gb", "b200-sxm-180gb"))


def test_a_capped_board_and_a_board_of_that_power_agree() -> None:
    assert bf16(H100, 500.0) == pytest.approx(bf16(catalog.device("h100-sxm-96gb")), rel=0.02)


def test_what_another_power_reaches_meets_the_measured_rates() -> None:
    # fits of rows on the boards themselves: 0.505 at 500 W (torchtitan), 0.51-0.58 on GB200, which is not the reference
    assert bf16(catalog.device("h100-sxm-96gb")) == pytest.approx(0.505, rel=0.06)
    assert 0.50 < bf16(catalog.device("gb200")) < 0.58


def test_the_reference_board_keeps_its_fractions() -> None:
    for device in (H100, A100, B200):
        assert bf16(device) == pytest.approx(coefficients("generic", device).gemm_fraction["bf16"], rel=1e-3)


def test_ampere_is_not_limited_at_300_w_but_below() -> None:
    assert bf16(catalog.device("a100-pcie-80gb")) == bf16(A100)
    assert bf16(A100, 200.0) < 0.75 * bf16(A100)


def test_fractions_of_the_device_itself_follow_only_a_cap() -> None:
    own = catalog.device("h100-sxm-96gb")
    chosen = replace(coefficients("generic", own), device_level=frozenset({"gemm_fraction.bf16"}))
    plain = chosen.gemm_fraction["bf16"]
    assert at_clock(own, chosen, 1.0).gemm_fraction["bf16"] == plain
    assert at_clock(own, chosen, capped_clock(own, chosen, 400.0)).gemm_fraction["bf16"] == pytest.approx(0.8 * plain)


def test_the_catalogue_knows_which_fractions_belong_to_a_device() -> None:
    chosen = coefficients("generic", catalog.device("mi325x"))
    assert {"gemm_fraction.bf16", "gemm_fraction.fp8"} <= chosen.device_level
    assert not coefficients("generic", H100).device_level


def test_more_power_does_not_raise_narrow_formats() -> None:
    gb200 = catalog.device("gb200")
    chosen = coefficients("generic", gb200)
    assert at_clock(gb200, chosen, 1.0).gemm_fraction["fp8"] == chosen.gemm_fraction["fp8"]


@pytest.mark.parametrize("cap", [300.0, 450.0, 600.0])
def test_attention_slows_only_where_it_is_faster_than_the_limit(cap: float) -> None:
    chosen = coefficients("generic", H100)
    clock = capped_clock(H100, chosen, cap)
    capped = at_clock(H100, chosen, clock).attention_fraction
    limit = power_limit(H100, chosen, cap)
    for kernel, value in chosen.attention_fraction.items():
        assert capped[kernel] == pytest.approx(min(value, limit))


def test_sustained_products_draw_what_the_board_may() -> None:
    chosen = coefficients("generic", H100)
    rate = H100.peak("bf16") * power_limit(H100, chosen, 700.0)
    dynamic = joules_per_flop(H100, chosen, "bf16") * rate
    assert 0.75 * 700.0 < dynamic < 700.0
    assert joules_per_flop(H100, chosen, "fp8") == pytest.approx(joules_per_flop(H100, chosen, "bf16") / 2, rel=1e-3)
