"""Fitting serving coefficients: what was hidden in synthetic rows is found; bands and residuals keep their promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel import catalog
from windtunnel.cost.serving import serving_coefficients
from windtunnel.serving import interval
from windtunnel.validation.fit_serving import residual_lines
from windtunnel.validation.serving_cases import cases_of, observations, predict
from windtunnel.validation.serving_fit import FREE, PRIORS, Fitter, out_of_sample, value_of, with_values

MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B", "mistralai/Mistral-7B-v0.1")


def rows() -> list[dict[str, Any]]:
    base = {
        "kind": "serving", "set": "made", "engine": "vllm", "engine_version": "0.12.0", "hardware": "h100_sxm",
        "precision": "bf16", "config": {}, "tp": 1, "pp": 1, "metrics": {"ttft_mean_ms": 1.0, "tpot_mean_ms": 1.0},
    }  # fmt: skip
    sizes = [(512, 64, 2), (2048, 32, 4), (256, 128, 16)]
    return [
        {**base, "id": f"r{i}", "model": model, "isl": isl, "osl": osl, "load": {"concurrency": slots}}
        for i, (model, (isl, osl, slots)) in enumerate((m, s) for m in MODELS for s in sizes)
    ]


@pytest.fixture(scope="module")
def fitted() -> tuple[Fitter, dict[Any, dict[str, float]]]:
    cases = cases_of(rows(), Path())
    seen = observations(cases)
    block = cases[0].block
    priors = {block: cases[0].ready.coefficients(fitted=False)}
    hidden = with_values(priors[block], {"host_s": 2.0 * priors[block].host_s})
    values, weights = predict(cases, seen, {block: hidden})
    assert np.isfinite(values).all() and (weights == 1.0).all()
    for o, value in zip(seen, values, strict=True):
        cases[o.case].measured[o.metric] = float(np.exp(value))
    fitter = Fitter(cases, observations(cases), priors)
    fitter.choose()
    at, _, _, _ = fitter.fit()
    return fitter, at


def test_a_hidden_host_cost_is_found(fitted: tuple[Fitter, Any]) -> None:
    fitter, at = fitted
    block = next(iter(at))
    before, _ = fitter.errors({})
    after, _ = fitter.errors(at)
    assert "host_s" in fitter.names[block] and len(fitter.names[block]) <= FREE
    assert np.abs(after).mean() < 0.25 * np.abs(before).mean()
    assert at[block]["host_s"] > 1.4 * value_of(fitter.priors[block], "host_s")


def test_no_value_is_beyond_its_roof(fitted: tuple[Fitter, Any]) -> None:
    _, at = fitted
    for own in at.values():
        assert all(value <= PRIORS[name][1] for name, value in own.items())


def test_folds_leave_whole_groups_out(fitted: tuple[Fitter, Any]) -> None:
    fitter, at = fitted
    block = next(iter(at))
    errors = out_of_sample(fitter, at, {block: fitter.first[block]})
    inside, _ = fitter.errors(at)
    assert np.isfinite(errors).all()
    assert np.abs(errors).mean() > 0.9 * np.abs(inside).mean()
    lines = residual_lines(fitter.cases, fitter.seen, errors, inside, np.ones(len(errors)))
    assert all(len(json.loads(line)) == len(interval.COLUMNS) for line in lines)


def test_priors_come_without_fitted_values() -> None:
    device = catalog.device("h100-sxm-80gb")
    prior = serving_coefficients("vllm", "0.12", device, fitted=False)
    assert prior.host_s == pytest.approx(1.3e-3)
    assert serving_coefficients("vllm", "0.6", device, fitted=False).host_s == pytest.approx(3.7e-3)


def test_a_band_leaves_its_own_group_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tuple(
        ("vllm", "hopper", "dense", "ttft", group, error, error, "set", "whole", 0)
        for group, error in [("own", 1.0)] * 30 + [("other", e) for e in np.linspace(-0.1, 0.2, 31)]
    )
    monkeypatch.setattr(interval, "_residuals", lambda: made)
    model = catalog.model("meta-llama/Llama-3.1-8B")
    found = interval.band("vllm", "hopper", model, "ttft_mean_ms", "own")
    assert found is not None and found.grade == "fitted"
    tail = interval.TAIL * 0.3
    assert found.low == pytest.approx(np.exp(tail - 0.2)) and found.high == pytest.approx(np.exp(0.1 - tail))
    assert interval.band("vllm", "hopper", model, "tpot_mean_ms") is None
    around = found.around(2.0)
    assert around["low"] < 2.0 < around["high"] and around["level"] == 0.8
    assert found.around(2.0, least=1.99)["low"] == 1.99


def test_a_new_group_is_off_as_groups_are_and_scatters_as_rows_do() -> None:
    many = [("a", e) for e in (-0.1, 0.0, 0.1)] * 30
    one_far = [*many, ("b", 0.9), ("b", 1.0), ("b", 1.1)]
    spread = interval.of_a_new_group(one_far)
    assert np.median(spread) == pytest.approx(0.5)
    assert (np.min(spread), np.max(spread)) == (pytest.approx(-0.1), pytest.approx(1.1))
    assert np.ptp(interval.of_a_new_group(many)) == pytest.approx(0.2)
