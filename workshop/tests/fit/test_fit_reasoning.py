"""Coefficients of populations are those of the rows, and hold on models that they were not fitted on."""

from __future__ import annotations

import numpy as np
import pytest
from reasoning_rows import rows

from windtunnel.population import fit_tables, greedy, reward_model, temperature_per_k
from windtunnel.population.beta import from_mean
from windtunnel.population.pass_at_k import pass_at_k
from windtunnel.population.revision import CONCENTRATION, FITTED, RUNS
from windtunnel.validation.rows.row_files import shipped_reasoning_rows
from windtunnel_lab.fit.reasoning import (
    fit_cost,
    fit_feedback,
    fit_sampling,
    fit_separation,
    fit_spoiled,
    left_out,
    model_of,
)


def test_worth_of_feedback_is_found_again():
    rng, drawn = np.random.default_rng(4), []
    for mean in rng.uniform(0.1, 0.6, 40):
        worth = np.exp(np.log(6.0) + 0.5 * rng.standard_normal())
        law = from_mean(float(mean), CONCENTRATION)
        gain = (float(pass_at_k(law, 1 + worth)) - mean) / (1 - mean)
        right = rng.binomial(round(400 * (1 - mean)), gain)
        drawn.append(
            {
                "model": f"m{len(drawn)}",
                "cases": 400,
                "pass_1_percent": 100 * mean,
                "pass_2_percent": 100 * mean + right / 4,
            }
        )
    found = fit_feedback(drawn)
    assert found.worth == pytest.approx(6.0, rel=0.2) and found.log_sd == pytest.approx(0.5, rel=0.3)


@pytest.mark.slow
def test_share_of_spoiled_attempts_is_that_of_the_leaderboard():
    assert fit_spoiled([r for r in shipped_reasoning_rows() if r["kind"] == "all_of_k"]) == fit_tables.SPOILED


def test_constants_are_those_of_the_rows():
    measured = rows("reasoning_quality")
    humaneval = [r for r in measured if r["kind"] == "pass_at_k" and r["task"].startswith("humaneval")]
    assert fit_cost(humaneval) == temperature_per_k.COST
    cost, sd = fit_sampling([r for r in measured if r["kind"] == "single_attempt"])
    assert (cost, sd) == pytest.approx((greedy.COST, greedy.COST_SD), abs=0.01)
    d, spread = fit_separation([r for r in measured if r["kind"] == "verifier_selection"])
    assert d == pytest.approx(reward_model.REWARD_MODEL_SEPARATION, abs=0.01)
    assert spread < reward_model.REWARD_MODEL_SPREAD  # of one model's attempts: others differ more
    for task in ("edit-133 qwen2.5 quantisations", "edit-133 two-model", "polyglot-225 qwen3"):
        own = fit_feedback([r for r in measured if r.get("task") == task])
        assert (own.rows, own.models) == (
            RUNS[task].rows,
            RUNS[task].models or own.models,
        ) and own.worth == pytest.approx(RUNS[task].worth, rel=0.02)
        assert own.log_sd == pytest.approx(RUNS[task].log_sd, abs=0.01)


@pytest.mark.slow
def test_models_left_out_are_inside_their_bands():
    """Bands of 80 % hold 75 to 90 % of models that set nothing of them; second attempts have no bias beyond 6 %."""
    measured = rows("reasoning_quality")
    for task, constant in FITTED.items():
        own = fit_feedback([r for r in measured if r.get("task") == task])
        assert own.worth == pytest.approx(constant.worth, rel=0.02) and own.models == constant.models
    found = list(left_out(measured))
    inside = [x.low <= x.measured <= x.high for x in found]
    assert len(found) == 144 and 0.75 <= np.mean(inside) <= 0.9
    for what in {x.what for x in found if x.what.startswith("second")}:
        own_errors = [(x.predicted - x.measured) / x.measured for x in found if x.what == what]
        assert abs(np.mean(own_errors)) < 0.06


def test_sizes_and_dates_of_a_model_are_left_out_together():
    assert model_of({"model": "o1-mini-2024-09-12"}) == model_of({"model": "o1-mini (whole)"})
    assert model_of({"model": "gpt-4o-mini"}) != model_of({"model": "o1-mini"})
