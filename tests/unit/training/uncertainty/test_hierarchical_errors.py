"""Centres and standard errors at new sites: those of generalised least squares, solved here in one bordered system."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from windtunnel.training.uncertainty.comparable_runs import WAYS, Residual, Subject
from windtunnel.training.uncertainty.hierarchical_errors import (
    LEVELS,
    UNMEASURED,
    Measured,
    Record,
    number_format,
    thinned,
)

VARIANCES = dict(
    zip((*LEVELS, *UNMEASURED, "row"), (0.02, 0.03, 0.01, 0.015, 0.05, 0.04, 0.025, 0.5, 0.7, 0.1), strict=True)
)


def subject(**changed: Any) -> Subject:
    fields: dict[str, Any] = {
        "software": "nemo",
        "root": "megatron_2021",
        "device": "h100",
        "generation": "hopper",
        "vendor": "nvidia",
        "mixture": False,
        "signature": "a|h100x8",
        "devices": 8,
        "across": False,
        "precision": "bf16",
        "seq_len": 2048,
        "hidden": 4096,
        "mbs": 1,
        "plan": "",
    }
    return Subject(**(fields | changed))


def residual(error: float, site: str, *, setting: bool = True, **changed: Any) -> Residual:
    errors = {"family": error} | ({"fold": 0.01} if setting else {})
    return Residual(
        subject=subject(**changed),
        family=site,
        site=site,
        ids=(site,),
        errors=tuple(errors.get(way) for way in WAYS),
    )


ROWS = (
    residual(0.10, "x"),
    residual(0.02, "x", signature="b|h100x8", precision="fp8"),
    residual(-0.20, "y", signature="c|a100x8", device="a100", generation="ampere", software="torchtitan", root="fsdp1"),
    residual(0.35, "z", signature="d|b200x8", device="b200", generation="blackwell", setting=False, mixture=True),
)


def bordered(record: Record, of: Subject, shared: np.ndarray[Any, Any], own: float) -> tuple[float, float]:
    """Best linear unbiased prediction by Lagrange's rule: weights that sum to 1 and have the least variance."""
    used = [i for i, row in enumerate(record.rows) if row.subject.signature != of.signature]
    covariance = record.covariance(VARIANCES)[np.ix_(used, used)]
    n = len(used)
    system = np.block([[covariance, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.append(shared[used], 1.0))
    weights = solved[:n]
    variance = own - 2.0 * weights @ shared[used] + weights @ covariance @ weights
    return float(weights @ record.errors[used]), math.sqrt(variance)


def test_a_new_site_shares_what_is_not_of_a_site() -> None:
    record = Record(ROWS)
    of = subject(signature="new|h100x16", precision="fp16")
    v = VARIANCES
    all_of_it = v["vendor"] + v["generation"] + v["software"] + v["engine"] + v["cell"]
    shared = np.array([all_of_it, all_of_it - v["cell"], v["vendor"], v["vendor"] + v["software"]])
    own = sum(v[name] for name in (*LEVELS, "row"))
    found = record.predict(of, v)
    centre, error = bordered(record, of, shared, own)
    assert found.new == ()
    assert (found.centre, found.error) == (pytest.approx(centre, rel=1e-9), pytest.approx(error, rel=1e-9))


def test_rows_of_the_same_model_and_cluster_take_no_part() -> None:
    record = Record(ROWS)
    of = subject(signature="a|h100x8")
    v = VARIANCES
    all_but_cell = v["vendor"] + v["generation"] + v["software"] + v["engine"]
    shared = np.array([9.0, all_but_cell, v["vendor"], v["vendor"] + v["software"]])
    centre, error = bordered(record, of, shared, sum(v[name] for name in (*LEVELS, "row")))
    found = record.predict(of, v)
    assert (found.centre, found.error) == (pytest.approx(centre, rel=1e-9), pytest.approx(error, rel=1e-9))


def test_what_no_row_sets_widens_the_interval_and_is_named() -> None:
    record = Record(ROWS)
    assert record.measured == Measured(
        generations=frozenset({"hopper", "ampere"}), engines=frozenset({"megatron_2021", "fsdp1"})
    )
    known, new = subject(signature="n"), subject(signature="n", generation="blackwell", root="jax")
    assert record.predict(known, VARIANCES).new == ()
    found = record.predict(new, VARIANCES)
    assert found.new == UNMEASURED
    assert found.error**2 > record.predict(known, VARIANCES).error ** 2 + 0.5


def test_covariance_is_that_of_the_levels_two_rows_share() -> None:
    v, found = VARIANCES, Record(ROWS).covariance(VARIANCES)
    assert found[0, 0] == pytest.approx(sum(v[name] for name in (*LEVELS, "row")))
    assert found[0, 1] == pytest.approx(v["vendor"] + v["generation"] + v["software"] + v["engine"])
    assert found[3, 3] == pytest.approx(found[0, 0] + v["new_generation"])
    assert found[2, 3] == pytest.approx(v["vendor"])
    assert (found == found.T).all()


def test_many_rows_of_one_site_and_cell_are_thinned_evenly() -> None:
    own = [("v", "g", "s", "e", "c", "one", str(i)) for i in range(30)] + [("v", "g", "s", "e", "c", "two", "0")]
    assert thinned(own) == [*range(0, 30, 3), 30]
    assert thinned(own, most=40) == [*range(31)]


@pytest.mark.parametrize(
    ("precision", "of"),
    [("bf16", "16"), ("fp16", "16"), ("mxfp8", "fp8"), ("nvfp4", "fp4"), ("mxfp4", "fp4"), ("int8", "int8")],
)
def test_formats_are_classes(precision: str, of: str) -> None:
    assert number_format(precision) == of
