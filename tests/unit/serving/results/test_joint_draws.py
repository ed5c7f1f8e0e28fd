"""Bands of one run from joint draws: none contradicts another, under any load and of any residuals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from windtunnel.serving.results.joint_draws import DRAWS, MEASURES, Draws, RunShape
from windtunnel.serving.results.residual_bands import draws

LOADS = ("closed", "open", "saturated", "offline")


def random_draws(rng: np.random.Generator) -> Draws:
    """Correlated residuals, some of them biased, with or without rows of full batches."""
    wide, bias, together = rng.uniform(0.01, 0.8, 2), rng.normal(0.0, 0.3, 2), rng.uniform(-0.9, 0.9)
    one, other = rng.normal(size=(2, DRAWS))
    return Draws(
        ttft=bias[0] + wide[0] * one,
        tpot=bias[1] + wide[1] * (together * one + math.sqrt(1 - together**2) * other),
        full_batch=np.sort(rng.normal(0.0, 0.2, DRAWS)) if rng.random() < 0.7 else None,
        tail=0.1,
        basis="drawn",
        grade="fitted",
    )


def random_shape(rng: np.random.Generator, load: str) -> RunShape:
    """Any run under a load."""
    return RunShape(
        load=load,
        first_token_share=float(rng.uniform()),
        rate_share=float(rng.uniform(0.0, 0.2)) if load == "open" else 1.0,
        offered=float(rng.uniform(1.0, 1.2)) if load in ("open", "saturated") else math.inf,
        pool_loads=((float(rng.uniform()), 0.0), (0.0, float(rng.uniform()))) if load == "open" else (),
    )


@pytest.mark.slow
@pytest.mark.parametrize("load", LOADS)
def test_bands_of_one_run_agree(load: str) -> None:
    rng = np.random.default_rng(LOADS.index(load))
    for _ in range(100):
        drawn, shape = random_draws(rng), random_shape(rng, load)
        bands, logs = drawn.bands(shape), drawn.of(shape)
        assert set(bands) == set(MEASURES)
        for one in bands.values():
            assert one.low <= 1.0 <= one.high
        share = shape.first_token_share
        answer = share * np.exp(logs["ttft"]) + (1.0 - share) * np.exp(logs["tpot"])
        assert answer == pytest.approx(np.exp(logs["e2e"]))
        assert bands["throughput"].high <= shape.offered
        if math.isinf(shape.offered):
            assert bands["throughput"].low == pytest.approx(1.0 / bands["e2e"].high, rel=0.02)
            assert bands["throughput"].high == pytest.approx(1.0 / bands["e2e"].low, rel=0.02)
        inside = [
            np.mean((own >= math.log(bands[n].low) - 1e-9) & (own <= math.log(bands[n].high) + 1e-9))
            for n, own in logs.items()
        ]
        assert min(inside) >= 0.79


def test_an_answer_of_steps_alone_has_their_band_and_one_of_prompts_alone_theirs() -> None:
    drawn = draws(("vllm", "hopper", "dense"))
    assert drawn is not None
    for share, name in ((0.0, "tpot"), (1.0, "ttft")):
        found = drawn.bands(RunShape(load="closed", first_token_share=share))
        assert found["e2e"].high == pytest.approx(found[name].high)
        assert found["e2e"].low == pytest.approx(found[name].low)


def test_what_arrives_comes_out_until_a_draw_is_too_slow() -> None:
    drawn = draws(("vllm", "hopper", "dense"))
    assert drawn is not None
    for prompts, decoding in ((0.1, 0.1), (0.95, 0.0), (0.0, 0.95), (0.5, 0.45)):
        shape = RunShape(
            load="open", first_token_share=0.1, rate_share=0.0, pool_loads=((prompts, decoding),), offered=1.0
        )
        found = drawn.bands(shape)["throughput"]
        assert found.high == 1.0
        assert (found.low == 1.0) == (prompts + decoding < 0.5)


def test_rows_of_full_batches_say_how_far_off_full_batches_are() -> None:
    drawn = draws(("trtllm", "hopper", "dense"))
    assert drawn is not None and drawn.full_batch is not None
    offline = drawn.bands(RunShape(load="offline", first_token_share=0.5))
    closed = drawn.bands(RunShape(load="closed", first_token_share=0.5))
    low, high = np.exp(np.quantile(drawn.full_batch, [0.1, 0.9]))
    assert offline["e2e"].high == pytest.approx(high) and offline["e2e"].low == pytest.approx(low)
    assert closed["e2e"].high != pytest.approx(high, rel=0.005) and closed["e2e"].low != pytest.approx(low, rel=0.005)


def test_draws_are_the_same_every_time() -> None:
    one, other = draws(("sglang", "blackwell", "moe")), draws(("sglang", "blackwell", "moe"))
    assert one is not None and other is not None
    assert np.array_equal(one.ttft, other.ttft) and np.array_equal(one.tpot, other.tpot)


def test_one_measured_run_leaves_what_cases_of_one_group_differ_by() -> None:
    """Steps of one model on one device scatter less than models and sites do; their difference is about zero."""
    drawn = draws(("vllm", "hopper", "dense"))
    assert drawn is not None
    after = drawn.once_measured()
    assert after is not None
    shape = RunShape(load="closed", first_token_share=0.0)
    now, then = drawn.bands(shape)["tpot"], after.bands(shape)["tpot"]
    assert math.log(then.high / then.low) < 0.7 * math.log(now.high / now.low)
    assert abs(float(np.median(after.tpot))) < 0.01
    assert math.log(then.high) == pytest.approx(-math.log(then.low), rel=0.1)
