"""Rows of measured power: reading, what a prediction may see, and the fit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from windtunnel.cost.serving_power import FITTED, power_coefficients
from windtunnel.validation.predict.power import outcomes, served, steady, step_seconds
from windtunnel.validation.predict.report import RowOutcome
from windtunnel.validation.predict.validate import validate
from windtunnel.validation.rows.parsing.power import PowerCase, device_of, is_power_row, read_power
from windtunnel.validation.rows.read_row import row_kind
from windtunnel_lab.accuracy.power_table import power_errors
from windtunnel_lab.fit.power_samples import Sample, samples
from windtunnel_lab.fit.refit_serving_power import by_fit, fit, left_out


def row(**changes: Any) -> dict[str, Any]:
    """A made-up row."""
    base = {
        "id": "x",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "task": "lm-arena-chat",
        "params_b": 8.0,
        "active_b": 8.0,
        "precision": "bfloat16",
        "gpu": "H100",
        "num_gpus": 1,
        "max_num_seqs": 64,
        "avg_batch_size": 63.0,
        "avg_power_W_reported": 600.0,
        "energy_per_token_J": 0.12,
        "median_itl_ms": 12.0,
    }
    return base | changes


def case_of(**changes: Any) -> PowerCase:
    """The row's configuration."""
    found = read_power(row(**changes))
    assert isinstance(found, PowerCase), found
    return found


def by_metric(data: dict[str, Any]) -> dict[str, RowOutcome]:
    """Outcomes of one row."""
    return {o.metric: o for o in outcomes(data, device_of(data))}


def test_power_rows_are_told_from_others() -> None:
    assert row_kind(row()) == "power"
    assert not is_power_row({"kind": "serving", "metrics": {}})
    assert row_kind({"kind": "serving"}) == "serving"


@pytest.mark.parametrize(
    ("changes", "weights", "experts", "devices"),
    [
        ({"precision": "fp8", "num_gpus": 8, "gpu": "B200"}, "fp8", None, 8),
        ({"precision": "mxfp4", "model": "openai/gpt-oss-20b"}, "bf16", "mxfp4", 1),
        ({"model": "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "precision": "FP8", "num_gpus": 4}, "fp8", None, 4),
    ],
)
def test_configuration(changes: dict[str, Any], weights: str, experts: str | None, devices: int) -> None:
    case = case_of(**changes)
    assert (case.precision.weights, case.precision.experts, case.plan.num_devices) == (weights, experts, devices)
    assert {name for name, _, _ in case.assumed} >= {"plan", "traffic.input_tokens", "traffic.output_tokens"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "nobody/knows-this"}, "nobody/knows-this"),
        ({"gpu": "Z900"}, "Z900"),
        ({"precision": "fp3"}, "fp3"),
        ({"avg_batch_size": None, "max_num_seqs": None}, "avg_batch_size"),
        ({"num_gpus": 3}, "num_attention_heads"),
    ],
)
def test_what_cannot_be_read_says_why(changes: dict[str, Any], words: str) -> None:
    report = validate([row(**changes)])
    assert {o.metric for o in report.rows} == {"avg_power", "energy_per_token"}
    assert all(o.predicted is None and words in o.reason for o in report.rows)


def test_own_times_see_nothing_measured() -> None:
    first = by_metric(row())
    other = by_metric(row(avg_power_W_reported=300.0, energy_per_token_J=1.0, median_itl_ms=40.0, id="y"))
    for metric in ("avg_power", "energy_per_token", "median_itl"):
        assert first[metric].predicted == other[metric].predicted
    assert first["avg_power given ITL"].predicted > other["avg_power given ITL"].predicted
    assert "avg_power given ITL" not in by_metric(row(median_itl_ms=None))


def test_energy_is_power_times_time() -> None:
    found = by_metric(row(num_gpus=2))
    case = case_of(num_gpus=2)
    mean, _ = step_seconds(case, served(case).iteration)
    expected = found["avg_power"].predicted * mean / case.batch
    assert found["energy_per_token"].predicted == pytest.approx(expected)
    for o in found.values():
        if o.interval:
            assert o.interval["low"] < o.predicted < o.interval["high"]


def test_given_times_are_kept() -> None:
    for batch, itl in ((16.0, 0.02), (400.0, 0.05), (3000.0, 0.2)):
        case = case_of(avg_batch_size=batch)
        x = served(case)
        totals = steady(case, x.iteration, itl)
        mean, median = step_seconds(case, x.iteration)
        per_step = float(totals["busy_s"][0] / totals["iterations"][0])
        assert per_step == pytest.approx(itl + max(mean - median, 0.0))
        assert float(totals["prompt_tokens"][0]) == pytest.approx(batch * case.prompt_tokens)


def _made_up(shares: dict[str, float], noise: float) -> list[Sample]:
    """Samples whose watts follow the form with known shares."""
    models = ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-14B", "meta-llama/Llama-3.1-70B", "Qwen/Qwen3-30B-A3B"]
    rows = [
        row(model=m, num_gpus=4 if "70B" in m else 1, avg_batch_size=b, median_itl_ms=itl, task=task)
        for m in models
        for b, itl in ((2.0, 10.0), (8.0, 25.0), (64.0, 22.0), (256.0, 60.0), (1000.0, 150.0))
        for task in ("lm-arena-chat", "gpqa")
    ]
    found = samples(rows)
    truth = replace(power_coefficients(found[0].device), **shares)
    random = np.random.default_rng(5)
    return [replace(s, watts=s.predicted(truth) * math.exp(noise * random.standard_normal())) for s in found]


def test_the_fit_finds_the_shares_that_made_the_rows() -> None:
    shares = {"awake": 0.3, "kernel": 0.35, "attention": 0.25, "matrix": 0.7}
    x, errors = fit(_made_up(shares, 0.01))
    for name, value, error in zip(FITTED, np.exp(x), errors, strict=True):
        assert value == pytest.approx(shares[name], rel=0.08), name
        assert 0.0 < error < 0.5


def test_errors_of_models_left_out_are_those_of_the_noise() -> None:
    found = _made_up({"awake": 0.3, "kernel": 0.35, "attention": 0.25, "matrix": 0.7}, 0.05)
    assert np.abs(left_out(found, by_fit)).mean() < 0.07


def test_shipped_errors_meet_the_bar_and_beat_constants() -> None:
    found = {(x["generation"], x["way"], x["measure"], x["left_out"]): x["mean"] for x in power_errors()}
    for generation in ("hopper", "blackwell"):
        for measure in ("watts, given ITL", "joules per token, given ITL"):
            assert found[generation, "this form", measure, "name"] <= 14.0
        ours = found[generation, "this form", "watts, given ITL", "architecture"]
        constant = "one constant, the best of other models"
        assert ours < 0.75 * found[generation, constant, "watts, given ITL", "architecture"]
