"""Fitting serving coefficients: what was hidden in synthetic rows is found; bands and residuals keep their promises."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import yaml

from windtunnel import catalog
from windtunnel.calibration.server_priors import PRIORS, PROMPT_LAYER_MOST_S
from windtunnel.cost.serving import serving_coefficients
from windtunnel.serving.deployment import prepare
from windtunnel.serving.results import joint_draws
from windtunnel.serving.results import measured_residuals as interval
from windtunnel.serving.results import residual_bands as bands
from windtunnel.serving.results.joint_draws import RunShape
from windtunnel_lab.fit.refit_serving import _write, refit, residual_rows, run_shapes
from windtunnel_lab.fit.serving import FREE, Fitter, State, out_of_sample
from windtunnel_lab.fit.serving_cases import cases_of, observations, predict
from windtunnel_lab.fit.serving_leave_out import between_sets, left_out_sets, results, table
from windtunnel_lab.fit.serving_pooling import Known, expected
from windtunnel_lab.fit.serving_priors import scaled, value_of

MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B", "mistralai/Mistral-7B-v0.1")


def rows() -> list[dict[str, Any]]:
    base = {
        "kind": "serving",
        "set": "made",
        "engine": "vllm",
        "engine_version": "0.12.0",
        "hardware": "h100_sxm",
        "precision": "bf16",
        "config": {},
        "tp": 1,
        "pp": 1,
        "metrics": {"ttft_mean_ms": 1.0, "tpot_mean_ms": 1.0},
    }
    sizes = [(512, 64, 2), (2048, 32, 4), (256, 128, 16)]
    return [
        {**base, "id": f"r{i}", "model": model, "isl": isl, "osl": osl, "load": {"concurrency": slots}}
        for i, (model, (isl, osl, slots)) in enumerate((m, s) for m in MODELS for s in sizes)
    ]


@pytest.fixture(scope="module")
def fitted() -> tuple[Fitter, State]:
    cases = cases_of(rows(), Path())
    seen = observations(cases)
    values, weights = predict(cases, seen, {cases[0].block: {"host_s": math.log(2.0)}})
    assert np.isfinite(values).all() and (weights == 1.0).all()
    for o, value in zip(seen, values, strict=True):
        cases[o.case].measured[o.metric] = float(np.exp(value))
    fitter = Fitter(cases, observations(cases))
    return fitter, fitter.fit()


def test_a_hidden_host_cost_is_found(fitted: tuple[Fitter, State]) -> None:
    fitter, best = fitted
    (block,) = best.at
    before, _ = fitter.errors({})
    after, _ = fitter.errors(best.at)
    assert after == pytest.approx(best.errors)
    assert "host_s" in fitter.names[block] and len(fitter.names[block]) <= FREE
    assert np.abs(after).mean() < 0.25 * np.abs(before).mean()
    assert best.at[block]["host_s"] > math.log(1.4)


def test_no_value_is_beyond_its_roof(fitted: tuple[Fitter, State]) -> None:
    fitter, best = fitted
    for block, logs in best.at.items():
        prior = fitter.priors[block]
        assert all(value_of(prior, n) * math.exp(x) <= PRIORS[n][1] * (1 + 1e-12) for n, x in logs.items())
    above = scaled(prior, {"weight_bytes_fraction": 3.0, "matrix_fraction.bf16": 3.0, "host_s": 1.0})
    assert above.weight_bytes_fraction == 0.95 and above.matrix_fraction["bf16"] == 0.97
    assert above.host_s == pytest.approx(prior.host_s * math.e)


def test_folds_leave_whole_groups_out(fitted: tuple[Fitter, State]) -> None:
    fitter, best = fitted
    errors = out_of_sample(fitter, best)
    assert np.isfinite(errors).all()
    assert np.abs(errors).mean() > 0.9 * np.abs(best.errors).mean()
    lines = residual_rows(
        fitter.cases, fitter.seen, (errors, best.errors, errors), np.ones(len(errors)), run_shapes(fitter.cases)
    )
    assert all(len(json.loads(json.dumps(line))) == len(interval.COLUMNS) for line in lines)


def test_sets_share_engines_and_devices() -> None:
    known = {("vllm", "hopper"): Known(-0.5, 0.1), ("vllm", "blackwell"): Known(-0.4, 0.1)}
    known |= {("sglang", "hopper"): Known(0.0, 0.1)}
    own, other = (expected("host_s", 0.4, (line, "ada"), known) for line in ("vllm", "sglang"))
    assert own.log < -0.2 and abs(other.log) < 0.15 and own.error < other.error < 0.4
    rates = {("vllm", "hopper"): Known(0.2, 0.05), ("vllm", "blackwell"): Known(-0.2, 0.05)}
    toward, away = (expected("decode_kv_fraction", 0.15, ("trtllm", g), rates) for g in ("hopper", "blackwell"))
    assert toward.log > 0.03 and away.log < -0.03
    unsure = {b: Known(own.log, 10.0) for b, own in rates.items()}
    assert abs(expected("decode_kv_fraction", 0.15, ("trtllm", "hopper"), unsure).log) < 1e-3
    assert expected("decode_kv_fraction", 0.15, ("trtllm", "hopper"), {}) == Known(0.0, 0.15)


def test_a_thin_set_starts_from_what_others_found() -> None:
    thin = {**rows()[0], "id": "thin", "hardware": "rtx4090"}
    cases = cases_of([*rows(), thin], Path())
    seen = observations(cases)
    values, _ = predict(cases, seen, {case.block: {"host_s": math.log(2.0)} for case in cases})
    for o, value in zip(seen, values, strict=True):
        cases[o.case].measured[o.metric] = float(np.exp(value))
    fitter = Fitter(cases, observations(cases))
    best = fitter.fit()
    assert fitter.thick == [("vllm", "hopper")] and fitter.thin == [("vllm", "ada")]
    assert best.center["vllm", "ada"]["host_s"].log > 0.3 * best.at["vllm", "hopper"]["host_s"] > 0.1
    before, _ = fitter.errors({})
    mine = fitter.of["vllm", "ada"]
    apart = fitter.without(best, np.array([o.case != len(cases) - 1 for o in fitter.seen]))
    assert np.abs(apart.errors[mine]).mean() < 0.8 * np.abs(before[mine]).mean()


def test_what_was_fitted_is_a_factor_on_each_devices_prior(tmp_path: Path, fitted: tuple[Fitter, State]) -> None:
    fitter, best = fitted
    text = Path(_write(tmp_path, "vllm", fitter.summary(best), fitter, best)).read_text()
    levels = yaml.safe_load(text)["coefficients"]
    own, pooled = levels["hopper"]["host_s"], levels["ada"]["host_s"]
    assert own["grade"] == "fitted" and own["value"] / own["prior"] == pytest.approx(2.0, rel=0.3)
    assert pooled["grade"] == "pooled" and 1.1 < pooled["value"] / pooled["prior"] < own["value"] / own["prior"]
    for name in ("rtx-4090", "l40s"):
        device = catalog.device(name)
        prior, found = (serving_coefficients("vllm", "0.12", device, fitted=f) for f in (False, True))
        assert found.weight_bytes_fraction >= 0.9 * prior.weight_bytes_fraction
        assert found.weight_bytes_fraction <= 0.95 and max(found.matrix_fraction.values()) <= 0.97


def test_sets_that_are_not_fitted_anew_keep_their_values(tmp_path: Path, fitted: tuple[Fitter, State]) -> None:
    fitter, best = fitted
    folder = tmp_path / "coefficients/serving/fitted"
    folder.mkdir(parents=True)
    old = {"ada": {"host_s": {"value": 1.0}}, "hopper": {"layer_s": {"value": 1.0}}}
    (folder / "vllm.yaml").write_text(yaml.safe_dump({"name": "vllm", "coefficients": old}))
    _write(tmp_path, "vllm", fitter.summary(best), fitter, best, kept=True)
    levels = yaml.safe_load((folder / "vllm.yaml").read_text())["coefficients"]
    assert levels["ada"] == old["ada"] and levels["hopper"]["host_s"]["grade"] == "fitted"
    assert "ampere" not in levels and levels["hopper"].get("layer_s", {}).get("value") != 1.0


def test_a_set_of_one_model_is_not_fitted_alone(tmp_path: Path) -> None:
    one = [{**row, "metrics": {"ttft_mean_ms": 20.0}} for row in rows()[:1]]
    with pytest.raises(ValueError, match="vllm/hopper"):
        refit(one, tmp_path, tmp_path, only=[("vllm", "hopper")])


def test_launching_a_prompt_has_a_roof() -> None:
    """What one-token prompts took elsewhere: 82.6 ms for DeepSeek-V3 under SGLang, kernels launched one by one."""
    prior = serving_coefficients("sglang", "0.5.9", catalog.device("h100-sxm-80gb"), fitted=False)
    above = scaled(prior, {"prompt_layer_s": 3.0}).prompt_layer_s
    assert above == PROMPT_LAYER_MOST_S > 82.6e-3 / 224.1


def test_priors_come_without_fitted_values() -> None:
    device = catalog.device("h100-sxm-80gb")
    prior = serving_coefficients("vllm", "0.12", device, fitted=False)
    assert prior.host_s == pytest.approx(1.3e-3)
    assert serving_coefficients("vllm", "0.6", device, fitted=False).host_s == pytest.approx(3.7e-3)


CLOSED = RunShape(load="closed", first_token_share=0.2)
CLOSED_PARTS = ("closed", 0.2, 1.0, 0.0)
HOPPER = ("vllm", "hopper", "dense")


def made(group: str, error: float, of_set: float, number: int) -> list[interval.Residual]:
    """First token and step of one case, both as far off."""
    shared = (f"{group} @ gpu", error, error, "set", "whole", 0, of_set, f"{group}-{number}", "closed", 0.2, 1.0, 0.0)
    return [(*HOPPER, measure, *shared) for measure in ("ttft", "tpot")]


def test_a_band_leaves_its_own_group_out(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [("own", 1.0)] * 30 + [("other", float(e)) for e in np.linspace(-0.1, 0.2, 31)]
    rows = tuple(row for i, (group, e) in enumerate(errors) for row in made(group, e, e, i))
    monkeypatch.setattr(bands, "known_residuals", lambda: rows)
    drawn = bands.draws(HOPPER, "own @ gpu", site=interval.Site("set", "gpu"))
    assert drawn is not None and drawn.grade == "fitted"
    found = drawn.bands(CLOSED)["ttft"]
    tail = joint_draws.TAIL * 0.3
    assert found.low == pytest.approx(np.exp(tail - 0.2), rel=0.01)
    assert found.high == pytest.approx(np.exp(0.1 - tail), rel=0.01)
    around = found.around(2.0)
    assert around["low"] < 2.0 < around["high"] and around["level"] == 0.8
    assert found.around(2.0, least=1.99)["low"] == 1.99


def test_a_site_that_no_row_knows_gets_the_deviation_between_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tuple(
        row
        for group, off in (("a", 0.3), ("b", 0.3))
        for i, e in enumerate(np.linspace(-0.1, 0.1, 21))
        for row in made(group, float(e), float(e) + off, i)
    )
    monkeypatch.setattr(bands, "known_residuals", lambda: rows)
    monkeypatch.setattr(bands, "deviation_of", lambda form: interval.Deviation({"ttft": 0.4}))
    drawn = bands.draws(HOPPER, site=interval.Site("other", "gpu"))
    assert drawn is not None and "whole sets" in drawn.basis
    elsewhere = drawn.bands(CLOSED)["ttft"]
    wide = 1.2816 * np.hypot(0.4, np.std(np.linspace(-0.1, 0.1, 21)))
    assert (np.log(elsewhere.low), np.log(elsewhere.high)) == (
        pytest.approx(-wide, rel=0.05),
        pytest.approx(wide, rel=0.05),
    )
    for site in (interval.Site("set", "gpu"), interval.Site(calibrated=True)):
        own = bands.draws(HOPPER, site=site)
        assert own is not None
        near = own.bands(CLOSED)["ttft"]
        assert np.log(near.high / near.low) < 0.3


def test_first_tokens_and_steps_of_a_draw_are_of_one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases whose first tokens and steps are off together give answers that scatter as much; else they even out."""
    errors = np.linspace(-0.4, 0.4, 41)
    together = [row for i, e in enumerate(errors) for row in made("a", float(e), float(e), i)]
    apart = [(*row[:5], *(-x if row[3] == "tpot" else x for x in row[5:7]), *row[7:]) for row in together]
    known = interval.Site("set", "gpu")
    wide, narrow = [], []
    for rows, out in ((together, wide), (apart, narrow)):
        monkeypatch.setattr(bands, "known_residuals", lambda rows=rows: tuple(rows))
        drawn = bands.draws(HOPPER, site=known)
        assert drawn is not None
        found = drawn.bands(RunShape(load="closed", first_token_share=0.5))
        out += [np.log(found[name].high / found[name].low) for name in ("ttft", "e2e")]
    assert wide[1] == pytest.approx(wide[0], rel=0.01) and narrow[1] < 0.3 * narrow[0]


def sets(offsets: tuple[float, ...], scatter: float, groups: int = 40) -> list[interval.Residual]:
    """Residuals of sets with hidden offsets, many models each."""
    drawn = np.random.default_rng(0).normal(0.0, scatter, size=(len(offsets), groups))
    return [
        (*HOPPER, measure, f"m{g} @ gpu{s}", 0.0, 0.0, "set", "whole", 0, off + drawn[s, g], f"{s}-{g}", *CLOSED_PARTS)
        for s, off in enumerate(offsets)
        for g in range(groups)
        for measure in ("ttft", "tpot")
    ]


def of_one(rows: list[interval.Residual]) -> list[interval.Residual]:
    """Those of first tokens."""
    return [row for row in rows if row[3] == "ttft"]


def test_the_deviation_between_sets_is_found_beside_that_of_models() -> None:
    offsets = (-0.5, -0.3, -0.1, 0.1, 0.3, 0.5)
    assert between_sets(of_one(sets(offsets, 0.2))) == pytest.approx(np.std(offsets, ddof=1), rel=0.15)
    assert between_sets(of_one(sets((0.0,) * 6, 0.3))) < 0.1
    assert between_sets(of_one(sets((0.7,), 0.3))) == 0.0


def test_a_set_is_judged_by_what_the_others_say() -> None:
    rows = sets((0.0, 0.0, 0.0, 3.0), 0.1)
    by = {one.set[2]: one for one in results(rows) if one.measure == "ttft"}
    assert by["gpu3"].inside == 0.0 and by["gpu0"].inside == 1.0  # the far set widens the others' bands, not its own
    assert by["gpu3"].width < 0.5 < by["gpu0"].width
    assert "vllm" in table(rows)


def test_a_set_leaves_the_fit(fitted: tuple[Fitter, State]) -> None:
    fitter, best = fitted
    own, _ = left_out_sets(fitter, best, fitter.cases, [])
    assert np.isfinite(own).all() and np.abs(own).mean() > 2.0 * np.abs(best.errors).mean()  # back at the priors


def test_a_new_group_is_off_as_groups_are_and_scatters_as_rows_do() -> None:
    many = [("a", e) for e in (-0.1, 0.0, 0.1)] * 30
    one_far = [*many, ("b", 0.9), ("b", 1.0), ("b", 1.1)]

    def spread(errors: list[tuple[str, float]]) -> npt.NDArray[np.float64]:
        drawn = joint_draws.of_a_new_group([g for g, _ in errors], np.array([[e, e] for _, e in errors]))
        assert np.array_equal(drawn[:, 0], drawn[:, 1])
        return drawn[:, 0]

    assert np.mean(spread(one_far)) == pytest.approx(0.5, abs=0.01)
    assert (spread(one_far).min(), spread(one_far).max()) == (pytest.approx(-0.1), pytest.approx(1.1))
    assert np.ptp(spread(many)) == pytest.approx(0.2)


def test_a_release_has_the_host_costs_of_its_line() -> None:
    device = catalog.device("a100-sxm-80gb")
    old, later = (serving_coefficients("vllm", version, device, fitted=False) for version in ("0.2.7", "0.4.2"))
    assert old.sequence_s > 10 * later.sequence_s and old.ranks_s > later.ranks_s == 0.0
    one, two = ({"plan": {"tp": tp}} for tp in (1, 2))
    source = {
        "model": "meta-llama/Llama-2-7b-hf",
        "cluster": {"device": "a100-sxm-80gb", "nodes": 1},
        "serving": {
            "engine": "vllm",
            "engine_version": "0.2.7",
            "traffic": {"concurrency": 1, "num_requests": 1, "input_tokens": 8, "output_tokens": 8},
        },
    }
    first, second = (prepare({**source, **plan}).iteration for plan in (one, two))
    assert second.coefficients.host_s == pytest.approx(first.coefficients.host_s + old.ranks_s)
    assert second.coefficients.sequence_s > first.coefficients.sequence_s
