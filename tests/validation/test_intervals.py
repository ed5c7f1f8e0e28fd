"""Bands and differences on the residuals that ship: coverage, width and score, each row's own group left out."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.validation.accuracy.out_of_sample import constant_band, judged, out_of_sample
from windtunnel.validation.accuracy.tables import grouped

pytestmark = pytest.mark.validation


def test_bands_cover_four_in_five() -> None:
    found = out_of_sample()
    assert 0.75 <= np.mean([j.inside for j in found]) <= 0.85
    for family, members in grouped(found, lambda j: j.residual.family).items():
        if len(members) >= 20:
            assert np.mean([j.inside for j in members]) >= 0.6, family


def test_bands_are_no_wider_than_three_mean_errors_and_beat_a_constant_one() -> None:
    found = judged("fold")
    error = np.mean([abs(j.error) for j in found])
    assert np.mean([j.width for j in found]) <= 3.1 * error
    assert np.mean([j.score for j in found]) < 0.95 * np.mean(constant_band(found))


def test_a_band_of_a_measured_row_leans_on_no_row_of_its_model_and_cluster() -> None:
    from windtunnel.training.uncertainty.comparable_runs import distances, residuals
    from windtunnel.training.uncertainty.step_time_interval import band, table_of

    table = table_of(residuals(), "fold")
    for r in table.members[::50]:
        found = band(r.subject, table, "fold", distances())
        assert found is not None
        used = [m.subject.signature for m, kept in zip(table.members, found.used, strict=True) if kept]
        assert r.subject.signature not in used


@pytest.mark.parametrize("way", ["pair", "device", "software"])
def test_units_left_out_are_covered(way: str) -> None:
    """Each unit counts once: bands of what nobody measured come from the other units."""
    units = grouped(judged(way), lambda j: (j.residual.subject.software, j.residual.subject.device))
    assert len(units) >= 20
    assert 0.65 <= np.mean([np.mean([j.inside for j in members]) for members in units.values()]) <= 0.97
