"""Leaving devices and software out: what remains of the fits, and what the catalogue would use then."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from windtunnel.cost.sites import Where
from windtunnel.validation.rows.row_files import shipped_rows
from windtunnel_lab.fit.configurations import Configuration, configurations
from windtunnel_lab.fit.group_fit import calibrate_group, members
from windtunnel_lab.fit.leave_out import GroupWithout, Record, record_of, units, unseen_coefficients

pytestmark = pytest.mark.xdist_group("leave_out")  # one process, so that the record is fitted once


def fraction(value: float) -> dict[str, Any]:
    return {"gemm_fraction.bf16": {"value": value, "relative_error": 0.01}}


def configured(family: str, **changes: Any) -> Configuration:
    """The first configuration of a shipped family, with fields changed."""
    found = configurations([r for r in shipped_rows() if r.get("family") == family][:8])
    return replace(found[0], **changes)


@pytest.fixture(scope="module")
def deepspeed() -> Configuration:
    return configured("vtrain-single")


@pytest.fixture(scope="module")
def record() -> Record:
    families = ("narayanan-t1", "torchtune-ablation", "korthikanti")
    return record_of([r for r in shipped_rows() if r.get("family") in families])


def test_factors_of_a_site_stay_there_when_others_are_left_out(deepspeed: Configuration) -> None:
    entries = {
        "collective_skew_s": {"value": 3e-4, "relative_error": 0.01},
        "multi_node_skew": {"value": 0.1, "relative_error": 0.01, "site": "vtrain-a100"},
        "partial_node_scale": {"value": 0.3, "relative_error": 0.01, "site": "vtrain-a100"},
    }
    fits = {("megatron_deepspeed", "ampere"): GroupWithout(entries, frozenset({"infiniband"}))}
    at_home = replace(deepspeed, where=Where("vtrain-a100", "infiniband"))
    _, home = unseen_coefficients(at_home, fits, {})
    base, away = unseen_coefficients(replace(deepspeed, where=Where("", "infiniband")), fits, {})
    assert home["partial_node_scale"] == 0.3 and "partial_node_scale" not in away
    assert away["multi_node_skew"] * away["collective_skew_s"] == pytest.approx(base.collective_skew_s)


def test_what_a_fit_says_of_networks_holds_on_the_families_of_its_rows(deepspeed: Configuration) -> None:
    """Rates of kernels travel with software and device; the shortfall of one family of networks does not."""
    entries = fraction(0.6) | {"scale_out_scale": {"value": 0.5, "relative_error": 0.01}}
    fits = {("megatron_deepspeed", "ampere"): GroupWithout(entries, frozenset({"roce"}))}
    effects = {"scale_out_scale": {"root": {"megatron_2021": -0.1}, "low": 0.1, "high": 1.2}}
    for fabric in ("", "roce"):
        _, values = unseen_coefficients(replace(deepspeed, where=Where("", fabric)), fits, effects)
        assert values == {"gemm_fraction.bf16": 0.6, "scale_out_scale": 0.5}
    elsewhere = replace(deepspeed, where=Where("", "ethernet"))
    base, values = unseen_coefficients(elsewhere, fits, effects)
    assert values == {"gemm_fraction.bf16": 0.6}
    assert base.scale_out_scale == pytest.approx(elsewhere.without_fit().scale_out_scale * 0.904837)


def test_one_measurement_under_two_labels_leaves_with_either() -> None:
    first = configured("narayanan-t1")
    again = replace(first, software="megatron_core", case=replace(first.case, family="another document"))
    other = configured("torchtune-ablation")
    found = [first, again, other]
    by_name = {name: (gone, judged) for name, gone, judged in units(found, "family", [])}
    assert by_name["narayanan-t1"] == ({0, 1}, {0}) and by_name["another document"] == ({0, 1}, {1})
    together = [("narayanan-t1", "another document")]
    assert {name for name, *_ in units(found, "family", together)} == {
        "narayanan-t1+another document",
        "torchtune-ablation",
    }


@pytest.mark.slow
def test_rows_that_judge_set_nothing(record: Record) -> None:
    judges = {i for i, c in enumerate(record.found) if c.case.family == "korthikanti"}
    assert judges and not judges & record.setting
    chosen = sorted(record.setting)
    moved = replace(record.derivatives, residuals=record.derivatives.residuals.copy())
    moved.residuals[sorted(judges)] += 1.0
    assert replace(record, derivatives=moved).shared.effects(chosen) == record.shared.effects(chosen)


@pytest.mark.slow
def test_a_family_that_leaves_is_predicted_without_its_own_rows(record: Record) -> None:
    """With every measured time of the family doubled, its predictions stay: the error alone moves."""
    index = {i for i, c in enumerate(record.found) if c.case.family == "torchtune-ablation"}
    plain = record.predictions_without(index, index)
    cases = [
        replace(c, case=replace(c.case, metrics=(replace(c.case.metrics[0], measured=2 * c.case.metrics[0].measured),)))
        if i in index
        else c
        for i, c in enumerate(record.found)
    ]
    doubled = replace(record, found=cases).predictions_without(index, index)
    sign = [1 if record.found[i].case.metrics[0].metric == "step_time" else -1 for i in sorted(index)]
    for i, s in zip(sorted(index), sign, strict=True):
        assert math.log1p(doubled[i]) == pytest.approx(math.log1p(plain[i]) - s * math.log(2))


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
