"""Tables that choose a temperature for each k: limits of the law, what it refuses, and the bars on measured rows."""

from __future__ import annotations

import numpy as np
import pytest
from reasoning_rows import rows

from windtunnel.population import temperature_per_k
from windtunnel.population.beta import from_mean
from windtunnel.population.pass_at_k import pass_at_k
from windtunnel.population.temperature_per_k import BestTemperatures, chooses, fit_best_temperatures
from windtunnel.validation.rows.row_files import shipped_reasoning_rows


def test_pass_1_is_best_where_it_is_said_to_be():
    law = BestTemperatures(0.3, 0.4, 0.0)
    assert law.pass_at_k(1) == pytest.approx(0.3, rel=1e-9)
    shares = [law.pass_at_k(k) for k in (1, 3, 10, 30, 100)]
    assert shares == sorted(shares) and shares[-1] < 1


def test_a_choice_of_temperature_is_never_worse_than_one():
    for k in (10, 100):
        assert BestTemperatures(0.3, 0.4, 0.0).pass_at_k(k) > float(pass_at_k(from_mean(0.3, 0.4), k))


def test_where_temperatures_cost_without_end_one_is_left():
    one = from_mean(0.3, 0.4)
    assert BestTemperatures(0.3, 0.4, 0.0, cost=1e9).pass_at_k(50) == pytest.approx(float(pass_at_k(one, 50)), rel=1e-9)


def test_a_law_is_found_again_and_broken_problems_stay_unsolved():
    law = BestTemperatures(0.25, 0.7, temperature_per_k.BROKEN["mbpp"])
    found = fit_best_temperatures({k: law.pass_at_k(k) for k in (1, 10)}, "mbpp")
    assert found is not None and found.pass_at_k(200) == pytest.approx(law.pass_at_k(200), rel=1e-3)
    assert law.pass_at_k(1e9) < 1 - temperature_per_k.BROKEN["mbpp"] + 1e-9


@pytest.mark.parametrize(
    "table", [{1: 0.2}, {10: 0.3, 100: 0.5}, {1: 0.3, 10: 0.3}, {1: 0.0, 10: 0.4}, {1: 0.4, 10: 1.0}]
)
def test_tables_of_another_form_have_no_law(table):
    assert fit_best_temperatures(table, "humaneval") is None


def test_which_benchmarks_choose():
    assert [chooses(x) for x in ("humaneval-164", "HumanEval", "mbpp", "math500", "")] == [
        "humaneval", "humaneval", "mbpp", None, None,
    ]  # fmt: skip


def _errors(rows_, benchmark: str) -> list[float]:
    errors = []
    for row in rows_:
        if row["kind"] == "pass_at_k" and chooses(row["task"]) == benchmark:
            table = {int(k): x / 100 for k, x in row["percent"].items()}
            found = fit_best_temperatures({k: table[k] for k in (1, 10)}, benchmark)
            assert found is not None
            errors.append(found.pass_at_k(100) - table[100])
    return errors


def test_pass_at_100_of_measured_rows():
    """The law of one temperature is off by 2 to 11 points here, all of one sign."""
    errors = _errors(rows("reasoning_quality"), "humaneval")
    assert len(errors) == 8 and np.sqrt(np.mean(np.square(errors))) < 0.025 and abs(np.mean(errors)) < 0.01


def test_pass_at_100_of_later_models():
    """Models that `COST` was not fitted on."""
    errors = _errors(shipped_reasoning_rows(), "humaneval")
    assert len(errors) == 9 and np.sqrt(np.mean(np.square(errors))) < 0.015
