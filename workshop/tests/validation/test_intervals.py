"""Bands and differences on the residuals that ship: coverage, width and score, each row's own group left out."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.training.uncertainty.comparable_runs import known_families, residuals
from windtunnel.training.uncertainty.step_time_interval import grade_of, interval_of, table_of
from windtunnel_lab.accuracy.out_of_sample import constant_band, judged
from windtunnel_lab.accuracy.tables import grouped
from windtunnel_lab.fit.hierarchy import Summary
from windtunnel_lab.fit.leave_out_table import LeftOut, Overall, unit_errors

pytestmark = [pytest.mark.validation, pytest.mark.slow]


def test_bands_out_of_fold_cover_four_in_five() -> None:
    found = judged("fold")
    assert 0.75 <= np.mean([j.inside for j in found]) <= 0.85
    for family, members in grouped(found, lambda j: j.residual.family).items():
        if len(members) >= 20:
            assert np.mean([j.inside for j in members]) >= 0.6, family


def test_families_left_out_whole_are_within_their_bars() -> None:
    """Families weighted equally: mean and median error, coverage of the 80 % interval."""
    units = unit_errors([r for r in residuals() if r.error("family") is not None], "family")
    whole = Overall.of(units)
    assert len(units) >= 20
    assert whole.mean <= 0.12
    assert 0.75 <= whole.coverage <= 0.85


@pytest.mark.xfail(
    strict=True,
    reason="9.6 %: simumax-b200, left out whole, is 10.3 % short and was 8.8",
)
def test_half_of_the_families_left_out_whole_are_within_nine_per_cent() -> None:
    units = unit_errors([r for r in residuals() if r.error("family") is not None], "family")
    assert Overall.of(units).median <= 0.09


def test_intervals_of_families_left_out_whole_are_at_most_three_and_a_half_errors_wide() -> None:
    units = unit_errors([r for r in residuals() if r.error("family") is not None], "family")
    assert Overall.of(units).width_over_error <= 3.5


def test_families_that_never_set_a_coefficient_are_within_their_bars() -> None:
    known = known_families()
    opened = {"bloom-prequel", "internevo", "fms-fsdp", "korthikanti", "mlperf-v3.0", "mlperf-v4.0", "mlperf-v5.0"}
    units = unit_errors([r for r in residuals() if r.error("family") is not None], "family")
    judges = [u for u in units if u.name in opened]
    assert len(judges) == len(opened) and not opened & known
    assert np.mean([u.mean for u in judges]) <= 0.12 and max(u.mean for u in judges) <= 0.18


def test_bands_are_no_wider_than_three_mean_errors() -> None:
    found = judged("fold")
    error = np.mean([abs(j.error) for j in found])
    assert np.mean([j.width for j in found]) <= 3.1 * error


@pytest.mark.xfail(strict=True, reason="0.952 of it; distances between runs were kept at the last refit")
def test_bands_beat_a_constant_one_by_a_twentieth() -> None:
    found = judged("fold")
    assert np.mean([j.score for j in found]) < 0.95 * np.mean(constant_band(found))


def test_a_band_of_a_measured_row_leans_on_no_row_of_its_model_and_cluster() -> None:
    from windtunnel.training.uncertainty.comparable_runs import distances
    from windtunnel.training.uncertainty.step_time_interval import band, table_of

    table = table_of(residuals(), "fold")
    for r in table.members[::50]:
        found = band(r.subject, table, "fold", distances())
        assert found is not None
        used = [m.subject.signature for m, kept in zip(table.members, found.used, strict=True) if kept]
        assert r.subject.signature not in used


FEW = pytest.mark.xfail(strict=True, reason="67 % of devices weighted equally, 72 before the last refit; not explained")


@pytest.mark.parametrize("way", ["family", pytest.param("device", marks=FEW), "software"])
def test_units_left_out_are_covered(way: str) -> None:
    """Units weighted equally and rows weighted equally: coverage of the 80 % interval, mean width over mean error."""
    left = LeftOut.of(residuals(), way)
    whole = Summary.of(left.errors, left.edges, left.units)
    assert 0.7 <= whole.coverage <= 0.88 and 0.7 <= whole.coverage_rows <= 0.9
    assert whole.width_over_error <= 3.6


def test_confidence_and_width_go_together() -> None:
    """Runs whose software or generation no row sets anything of have the widest intervals."""
    fold = table_of(residuals(), "fold")
    members = residuals()
    widths: dict[str, list[float]] = {}
    for r in members[::7]:
        found = interval_of(r.subject, 1.0)
        widths.setdefault(grade_of(r.subject, fold), []).append(np.log(found.high / found.low))
    assert np.mean(widths["assumed"]) > np.mean(widths["fitted"])


def test_servers_left_out_whole_are_within_their_bars() -> None:
    """Sets of serving rows weighted equally: coverage of the 80 % band, width over error, no measure far from it."""
    from windtunnel.serving.results.measured_residuals import CACHE_FULL, known_residuals
    from windtunnel_lab.fit.serving_leave_out import results

    sets = [one for one in results([r for r in known_residuals() if not r[CACHE_FULL]]) if np.isfinite(one.inside)]
    assert len(sets) >= 70
    assert 0.75 <= np.mean([one.inside for one in sets]) <= 0.85
    assert np.mean([one.width for one in sets]) <= 3.5 * np.mean([np.abs(one.errors).mean() for one in sets])
    for key, members in grouped(sets, lambda one: (one.form, one.measure)).items():
        assert np.mean([one.inside for one in members]) >= 0.65, key
