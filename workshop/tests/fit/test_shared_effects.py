"""Effects that software, generations and engines share, beside those of sites, which stay behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from windtunnel.cost.pooled import pooled_factors
from windtunnel.validation.rows.row_files import shipped_rows
from windtunnel_lab.fit.leave_out import Record, record_of

pytestmark = pytest.mark.xdist_group("shared_effects")  # one process, so that the record is read and fitted once


@pytest.fixture(scope="module")
def record() -> Record:
    return record_of([r for r in shipped_rows() if r.get("family") in ("narayanan-t1", "torchtune-ablation")])


def slowed(record: Record, family: str, by: float) -> Record:
    """The record with every prediction of a family slower by a factor than it was."""
    taken = record.derivatives
    residuals = taken.residuals + np.log(by) * np.array([c.case.family == family for c in record.found])
    return replace(record, derivatives=replace(taken, residuals=residuals))


def gemm_factor(record: Record, software: str) -> float:
    effects = record.shared.effects(range(len(record.found)))
    return pooled_factors(effects, software, software, "ampere")["gemm_fraction.bf16"]


@pytest.mark.slow
def test_what_one_site_shows_reaches_other_software_less_than_its_own(record: Record) -> None:
    late = slowed(record, "torchtune-ablation", 1.2)
    own = gemm_factor(late, "torchtune") / gemm_factor(record, "torchtune")
    other = gemm_factor(late, "megatron_2021") / gemm_factor(record, "megatron_2021")
    assert own > 1.01 and 1.0 < other < own


@pytest.mark.slow
def test_the_site_keeps_a_part_of_what_it_shows(record: Record) -> None:
    """Predictions that come out slow by 20 % call for faster products; the shared part answers for less than all."""
    late = slowed(record, "torchtune-ablation", 1.2)
    assert 1.0 < gemm_factor(late, "torchtune") / gemm_factor(record, "torchtune") < 1.2


@pytest.mark.slow
def test_software_of_which_nothing_is_left_takes_no_starting_values_from_its_rows(record: Record) -> None:
    chosen = [i for i, c in enumerate(record.found) if c.software == "torchtune"]
    effects = record.shared.effects(chosen, frozenset({"megatron_2021"}))
    labels = {label for entry in effects.values() for kind in ("root", "software") for label in entry.get(kind, {})}
    assert labels == {"torchtune"}
