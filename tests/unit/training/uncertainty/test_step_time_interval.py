"""Bands around a prediction and around a difference: what they lean on, and that they cover what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from windtunnel.training.results.records import Interval
from windtunnel.training.uncertainty.comparable_runs import WAYS, Residual, Subject
from windtunnel.training.uncertainty.plan_difference import (
    PairedDifference,
    paired_difference,
    pairs_of,
    settings_apart,
    spread,
)
from windtunnel.training.uncertainty.profile_coverage import Coverage
from windtunnel.training.uncertainty.step_time_interval import band, grade_of, interval_of, table_of, way_for
from windtunnel_lab.fit.hierarchy import WAYS as UNITS
from windtunnel_lab.fit.hierarchy import edges_left_out, fit_variances, scaled_errors
from windtunnel_lab.fit.interval_width import bands, interval_scores

APART = {"software": 1.0, "device": 1.0, "mixture": 2.0, "devices": 0.3, "settings": 0.5}


def subject(group: int = 0, **changes: object) -> Subject:
    base = Subject(
        software="nemo",
        root="megatron_core",
        device="h100-sxm-80gb",
        generation="hopper",
        vendor="NVIDIA",
        mixture=False,
        signature=f"{1024 + group}x8x9x0|h",
        devices=8,
        across=False,
        precision="bf16",
        seq_len=2048,
        hidden=1024,
        mbs=1,
        plan="tp2 mbs1 gbs8 zero1 none",
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def residual(error: float, who: Subject, name: str = "r", site: str = "site", **ways: float) -> Residual:
    errors = {"fold": error, **ways}
    values = tuple(errors.get(way) for way in WAYS)
    return Residual(subject=who, family=site, site=site, ids=(name,), errors=values)


def drawn(n: int, spread_of: float, seed: int = 1, **changes: object) -> list[Residual]:
    errors = np.random.default_rng(seed).normal(0, spread_of, n)
    return [residual(float(np.expm1(e)), subject(i, **changes), f"{changes}{i}") for i, e in enumerate(errors)]


def test_a_band_covers_its_share_of_new_draws() -> None:
    table = table_of(drawn(400, 0.05), "fold")
    edges = bands(table, APART)
    inside = (edges[:, 0] <= table.errors) & (table.errors <= edges[:, 1])
    assert 0.76 <= inside.mean() <= 0.85


def test_rows_of_the_same_model_and_cluster_take_no_part() -> None:
    rows = drawn(40, 0.02)
    wild = [residual(3.0, subject(99), f"w{i}") for i in range(40)]
    table = table_of([*rows, *wild], "fold")
    own = band(subject(99), table, "fold", APART)
    other = band(subject(98), table, "fold", APART)
    assert own is not None and other is not None
    assert own.high < 0.1 < 1.0 < other.high


def test_the_band_follows_the_rows_that_are_alike() -> None:
    table = table_of([*drawn(60, 0.02), *drawn(60, 0.3, mixture=True)], "fold")
    dense, mixed = band(subject(500), table, "fold", APART), band(subject(500, mixture=True), table, "fold", APART)
    assert dense is not None and mixed is not None
    assert mixed.high - mixed.low > 3 * (dense.high - dense.low)


def test_what_is_unknown_decides_which_errors_count() -> None:
    table = table_of([residual(0.0, subject()), residual(0.0, subject(1, software="jax", device="b200"))], "fold")
    assert way_for(subject(), table, site_known=True) == "fold"
    assert way_for(subject(), table) == "family"
    assert way_for(subject(device="b200"), table, site_known=True) == "family"
    assert grade_of(subject(), table) == "fitted" and grade_of(subject(device="new"), table) == "analytic"
    assert grade_of(subject(software="new"), table) == "assumed"
    assert grade_of(subject(device="new", generation="new"), table) == "assumed"


def test_bands_of_unseen_sites_cover_their_share_of_new_sites() -> None:
    """Each site has an error that all its rows share; bands out of fold would hold a third of a new site's rows."""
    generator = np.random.default_rng(5)
    rows = []
    for site in range(60):
        shared = generator.normal(0, 0.1)
        for k in range(5):
            error = float(np.expm1(shared + generator.normal(0, 0.03)))
            rows.append(residual(0.0, subject(10 * site + k), f"{site}-{k}", f"s{site}", **dict.fromkeys(UNITS, error)))
    variances = fit_variances(rows)
    members = scaled_errors(rows, variances)
    (edges,) = edges_left_out(members, members, [r.site for r in members], ({}, variances), [0.8])
    errors = np.log1p([r.error("family") or 0.0 for r in members])
    inside = (edges[:, 0] <= errors) & (errors <= edges[:, 1])
    assert 0.72 <= inside.mean() <= 0.9
    assert variances["site_cell"] > 4 * variances["row"] > 0.0


def test_a_known_site_and_a_profile_take_the_spread_between_sites_out() -> None:
    away, home = interval_of(subject(), 1.0), interval_of(subject(), 1.0, site_known=True)
    profiled = interval_of(subject(), 1.0, Coverage(1.0, 0.01))
    assert "whole families left out" in away.basis and "out of fold" in home.basis
    # widths at home and with a profile are estimates of the same spread, from 45 configurations and from 15 families
    assert max(home.high - home.low, profiled.high - profiled.low) < 0.8 * (away.high - away.low)


def test_an_unseen_device_widens_the_shipped_band_and_says_so() -> None:
    known = interval_of(subject(), 1.0)
    unseen = interval_of(subject(device="nothing-like-it", generation="none", vendor="none"), 1.0)
    assert known.grade == "fitted" and unseen.grade == "assumed" and "generation" in unseen.basis
    assert np.log(unseen.high / unseen.low) > np.log(known.high / known.low)
    assert known.low <= 1.0 <= known.high and known.rows
    strange = interval_of(subject(software="none", root="none", device="none", generation="none", vendor="none"), 1.0)
    assert strange.grade == "assumed"


def test_interval_scores_reward_neither_width_nor_misses() -> None:
    errors = np.array([0.0, 0.2])
    scores = interval_scores(errors, np.array([[-0.1, 0.1], [-0.1, 0.1]]))
    assert scores == pytest.approx([0.2, 0.2 + 10 * 0.1])


def paired_rows(groups: int, offset: float, own: float) -> list[Residual]:
    """Groups with an error that all their plans share, and a small one of each plan."""
    generator = np.random.default_rng(3)
    out = []
    for g in range(groups):
        shared = generator.normal(0, offset)
        for k in range(4):
            error = float(np.expm1(shared + generator.normal(0, own)))
            out.append(residual(error, subject(g, plan=f"tp{2**k} mbs1 gbs8 zero1 none"), f"{g}-{k}"))
    return out


def test_pairs_forget_what_their_group_shares() -> None:
    found = pairs_of(paired_rows(30, 0.2, 0.01))
    assert len(found.error) == 30 * 6
    assert np.abs(found.error).mean() < 0.03 < np.abs(found.table.errors).mean()
    a, b = subject(900, plan="tp1 mbs1 gbs8 zero1 none"), subject(900, plan="tp2 mbs1 gbs8 zero1 none")
    errors, weights, *_ = spread(a, b, found, APART) or (None, None)
    assert errors is not None and weights is not None
    assert abs(float((errors * weights).sum())) < 1e-12 and weights.sum() == pytest.approx(1.0)


def test_settings_that_differ_are_counted() -> None:
    a = subject(plan="tp2 mbs1 gbs8 zero1 none")
    assert settings_apart(a, a) == 0
    assert settings_apart(a, replace(a, plan="tp4 mbs1 gbs8 zero1 none")) == 1
    assert settings_apart(a, replace(a, plan="pp2 mbs1 gbs8 zero1 full", precision="fp8")) == 4


def difference(ratio: float, **changes: object) -> PairedDifference:
    a = subject(700, plan="tp2 mbs1 gbs8 zero1 none")
    b = replace(a, plan="tp4 mbs1 gbs8 zero1 none", **changes)  # type: ignore[arg-type]
    one, other = Interval(0.8, 0.9, 1.1, "", "fitted"), Interval(0.8, 0.9 * ratio, 1.1 * ratio, "", "fitted")
    return paired_difference(a, b, 1.0, ratio, one, other)


def test_the_shipped_record_tells_clear_differences_and_not_small_ones() -> None:
    small, clear = difference(1.005), difference(2.0)
    assert not small.told_apart and "cannot be told apart" in small.verdict and small.pairs > 0
    assert clear.told_apart and clear.probability_a_faster > 0.9 and clear.low > 1.0
    assert difference(0.5).probability_a_faster == pytest.approx(1 - clear.probability_a_faster, abs=0.02)


def test_runs_that_share_nothing_take_both_bands() -> None:
    apart = difference(1.1, signature="other", software="jax")
    assert apart.pairs == 0 and "independent" in apart.basis
    assert apart.low == pytest.approx(1.1 * np.exp(-np.hypot(np.log(1 / 0.9), np.log(1.1))))


def test_compare_says_how_sure_it_is() -> None:
    from windtunnel import api
    from windtunnel.views.compare import view
    from windtunnel.writers import html

    base = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"framework": "nemo", "seq_len": 2048, "global_batch": 8},
    }
    comparison = api.compare({**base, "plan": {"tp": 1, "mbs": 1}}, {**base, "plan": {"tp": 8, "mbs": 1}})
    paired = comparison.paired
    assert isinstance(paired, PairedDifference) and paired.pairs > 0 and paired.grade == "fitted"
    assert paired.low < comparison.b.step_time_s / comparison.a.step_time_s < paired.high
    assert comparison.to_dict()["paired"]["verdict"] == paired.verdict
    assert paired.verdict[1:] in html.render(view(comparison))
    same = api.compare({**base, "plan": {"tp": 1, "mbs": 1}}, {**base, "plan": {"tp": 1, "mbs": 1}})
    assert same.paired is not None and same.paired.verdict == "the same plan"
