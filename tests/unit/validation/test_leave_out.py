"""Leaving devices and software out: what remains of the fits, and what the catalogue would use then."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.validation.fit.configurations import configurations
from windtunnel.validation.fit.group_fit import GroupFit, calibrate_group, members
from windtunnel.validation.fit.leave_out import remaining, stored_fits, unseen_coefficients
from windtunnel.validation.rows.row_files import shipped_rows

LEVELS = ("gpu", "ampere", "a100-sxm-80gb")


def fraction(value: float) -> dict[str, Any]:
    return {"gemm_fraction.bf16": {"value": value, "relative_error": 0.01}}


FITS = [
    GroupFit(
        software="fsdp1",
        level="ampere",
        fitted=fraction(0.7),
        folds={},
        without={"a100-sxm-80gb": fraction(0.6)},
        devices=("a100-sxm-40gb", "a100-sxm-80gb"),
    ),
    GroupFit(
        software="torchtune", level="ampere", fitted=fraction(0.5), folds={}, without={}, devices=("a100-sxm-80gb",)
    ),
    GroupFit(software="fsdp1", level="hopper", fitted=fraction(0.4), folds={}, without={}, devices=("h100-sxm-80gb",)),
]


def test_a_left_out_device_takes_its_rows_from_every_software() -> None:
    left = remaining(FITS, "device", "", "a100-sxm-80gb")
    assert left == {"fsdp1": {"ampere": fraction(0.6), "hopper": fraction(0.4)}}


def test_a_left_out_pair_leaves_other_software_alone() -> None:
    left = remaining(FITS, "pair", "fsdp1", "a100-sxm-80gb")
    assert left["torchtune"] == {"ampere": fraction(0.5)} and left["fsdp1"]["ampere"] == fraction(0.6)


def test_a_left_out_software_leaves_nothing_of_itself() -> None:
    assert set(remaining(FITS, "software", "fsdp1", "")) == {"torchtune"}


def test_an_unseen_pair_uses_what_remains() -> None:
    _, values = unseen_coefficients(remaining(FITS, "device", "", "a100-sxm-80gb"), {}, "fsdp1", LEVELS)
    assert values == {"gemm_fraction.bf16": 0.6}
    base, values = unseen_coefficients({}, {}, "fsdp1", LEVELS, {"fsdp1"})
    assert not values and base.grades.get("gemm_fraction.bf16") != "fitted"
    pooled = {"gemm_fraction.bf16": {"root": {"fsdp1": -0.1}, "low": 0.1, "high": 0.95}}
    scaled, _ = unseen_coefficients({}, pooled, "fsdp1", LEVELS, {"fsdp1"})
    assert scaled.gemm_fraction["bf16"] == pytest.approx(base.gemm_fraction["bf16"] * 0.904837)


def test_shipped_fits_are_complete() -> None:
    fits = stored_fits()
    assert len(fits) > 15 and all(f.fitted and f.devices for f in fits)


def test_repeats_count_once_at_their_median() -> None:
    row = next(r for r in shipped_rows() if r.get("family") == "narayanan-t1")
    again = [row | {"id": f"again-{k}", "value": row["value"] * factor} for k, factor in enumerate((1.1, 1.2))]
    (found,) = configurations([row, *again])
    assert found.ids == (row["id"], "again-0", "again-1")
    assert found.case.metrics[0].measured == pytest.approx(row["value"] * 1.1)


def test_a_small_group_is_fitted_with_folds() -> None:
    rows = [r for r in shipped_rows() if r.get("family") == "narayanan-t1"]
    group = {
        "software": "megatron_2021",
        "level": "ampere",
        "families": ["narayanan-t1"],
        "fit": {"gemm_fraction.bf16": 0.9},
    }
    defaults = {"gemm_fraction.bf16": {"sigma": 0.5, "low": 0.2, "high": 0.95}}
    fit = calibrate_group(rows, group, defaults)
    assert 0.6 < fit.fitted["gemm_fraction.bf16"]["value"] < 0.85
    assert len(fit.folds) == len(members(configurations(rows), group)) == len(rows)
    assert max(abs(e) for e in fit.folds.values()) < 0.15 and fit.devices == ("a100-sxm-80gb",)
