"""Drawn traffic against what its specification asks for."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from windtunnel.errors import BadInput
from windtunnel.scenarios.load import load_scenario
from windtunnel.serving.traffic import generate
from windtunnel.specs.base import Inconsistent
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.traffic import Sessions, TrafficSpec


def spec(**given: Any) -> TrafficSpec:
    base: dict[str, Any] = {"num_requests": 40_000, "input_tokens": 100, "output_tokens": 10}
    if not {"rate_per_s", "concurrency", "offline"} & given.keys():
        base["rate_per_s"] = 20.0
    return TrafficSpec(**(base | given))


def gaps(traffic_spec: TrafficSpec) -> np.ndarray:
    return np.diff(generate(traffic_spec).requests.arrival_s)


def law(kind: str, **given: Any) -> Lengths:
    return Lengths(distribution=kind, **given)


# -- arrivals ----------------------------------------------------------------------------------------------------------
def test_constant_is_exact() -> None:
    arrivals = generate(spec(process="constant", rate_per_s=8.0, num_requests=1000)).requests.arrival_s
    np.testing.assert_array_equal(arrivals, np.arange(1000) / 8.0)


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0])
def test_burstiness_is_the_gamma_shape(shape: float) -> None:
    between = gaps(spec(process="gamma", burstiness=shape))
    assert between.mean() == pytest.approx(1 / 20, rel=4 / np.sqrt(shape * 40_000))
    assert between.std() / between.mean() == pytest.approx(shape**-0.5, rel=0.04)


def test_poisson_gaps_are_exponential() -> None:
    between = np.sort(gaps(spec()))
    expected = -np.log1p(-(np.arange(len(between)) + 0.5) / len(between)) / 20
    assert np.abs(between - expected)[:-40].max() < 0.02 / 2


def test_bursts_are_silent_outside_their_part_of_the_period() -> None:
    arrivals = generate(spec(process="bursty", period_s=10, peak_to_mean=4)).requests.arrival_s
    assert (arrivals % 10).max() <= 2.5 + 1e-9
    whole = arrivals < 190 * 10
    assert whole.sum() == pytest.approx(190 * 10 * 20, abs=4 * np.sqrt(190 * 200))


def test_diurnal_rate_follows_the_sine() -> None:
    arrivals = generate(spec(process="diurnal", period_s=100, peak_to_mean=1.6)).requests.arrival_s
    inside = arrivals[arrivals < 1900]
    counts, edges = np.histogram(inside % 100, bins=20, range=(0, 100))
    middle = (edges[1:] + edges[:-1]) / 2
    expected = 1900 / 20 * 20 * (1 + 0.6 * np.sin(2 * np.pi * middle / 100))
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_more_requests_only_add_to_them() -> None:
    for process in ("poisson", "gamma", "bursty", "diurnal"):
        shape = {"burstiness": 0.5} if process in ("gamma", "bursty") else {}
        short = generate(spec(process=process, num_requests=50, **shape)).requests
        long = generate(spec(process=process, num_requests=5000, **shape)).requests
        np.testing.assert_array_equal(short.arrival_s, long.arrival_s[:50])


def test_another_rate_scales_the_same_gaps() -> None:
    slow, fast = (generate(spec(rate_per_s=r)).requests for r in (2.0, 20.0))
    np.testing.assert_allclose(slow.arrival_s, 10 * fast.arrival_s, rtol=1e-12)
    np.testing.assert_array_equal(slow.input_tokens, fast.input_tokens)


def test_duration_bounds_the_count() -> None:
    requests = generate(spec(num_requests=None, duration_s=100.0)).requests
    assert requests.arrival_s.max() < 100 and abs(len(requests) - 2000) < 4 * np.sqrt(2000)
    assert len(generate(spec(num_requests=50, duration_s=100.0)).requests) == 50
    with pytest.raises(BadInput, match="duration_s = 1e-09: is too short"):
        generate(spec(num_requests=None, duration_s=1e-9))


def test_offline_is_there_at_the_start_and_closed_loops_have_no_times() -> None:
    assert (generate(spec(offline=True)).requests.arrival_s == 0).all()
    closed = generate(spec(concurrency=16))
    assert closed.concurrency == 16 and np.isnan(closed.requests.arrival_s).all()


def test_a_million_requests_take_well_under_a_second() -> None:
    big = spec(
        num_requests=1_000_000, input_tokens=law("lognormal", mean=1000, cv=1), output_tokens=law("gamma", mean=200)
    )
    generate(big.model_copy(update={"num_requests": 1000}))
    best = min(_seconds(big) for _ in range(3))
    assert best < 1.0


def _seconds(traffic_spec: TrafficSpec) -> float:
    begin = time.perf_counter()
    generate(traffic_spec)
    return time.perf_counter() - begin


# -- lengths -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("lengths", "mean", "cv"),
    [
        (law("fixed", mean=77), 77, 0),
        (law("uniform", min=80, max=120), 100, np.sqrt((41**2 - 1) / 12) / 100),
        (law("normal", mean=1000, cv=0.2), 1000, 0.2),
        (law("lognormal", mean=1000, cv=0.8), 1000, 0.8),
        (law("gamma", mean=1000, cv=0.8), 1000, 0.8),
        (law("gamma", mean=1000, cv=0.0), 1000, 0.0),
        (law("empirical", values=(1, 3, 3, 5)), 3, np.sqrt(2) / 3),
    ],
)
def test_distributions_have_the_mean_and_spread_asked_for(lengths: Lengths, mean: float, cv: float) -> None:
    drawn = generate(spec(num_requests=200_000, input_tokens=lengths)).requests.input_tokens
    assert drawn.mean() == pytest.approx(mean, rel=max(4 * cv / np.sqrt(200_000), 1e-12))
    assert drawn.std() / mean == pytest.approx(cv, rel=0.03, abs=1e-12)


def test_zipf_falls_as_a_power_of_the_length() -> None:
    drawn = generate(spec(num_requests=400_000, input_tokens=law("zipf", mean=60, min=10, max=1000))).requests
    assert drawn.input_tokens.mean() == pytest.approx(60, rel=0.02)
    counts = np.bincount(drawn.input_tokens)
    once = np.log(counts[10] / counts[20]) / np.log(2)
    twice = np.log(counts[20] / counts[40]) / np.log(2)
    assert once == pytest.approx(twice, abs=0.12) and once > 0.5


def test_lengths_are_cut() -> None:
    drawn = generate(spec(input_tokens=law("normal", mean=100, cv=1, min=50, max=120))).requests.input_tokens
    assert drawn.min() == 50 and drawn.max() == 120


@pytest.mark.parametrize("wanted", [-0.9, -0.3, 0.5, 0.95])
def test_rank_correlation(wanted: float) -> None:
    lengths = {"input_tokens": law("lognormal", mean=3000, cv=1), "output_tokens": law("gamma", mean=900, cv=0.7)}
    alone = generate(spec(**lengths)).requests
    paired = generate(spec(**lengths, correlation=wanted)).requests
    np.testing.assert_array_equal(np.sort(alone.input_tokens), np.sort(paired.input_tokens))
    np.testing.assert_array_equal(np.sort(alone.output_tokens), np.sort(paired.output_tokens))
    ranks = [np.argsort(np.argsort(x, kind="stable")) for x in (paired.input_tokens, paired.output_tokens)]
    assert np.corrcoef(*ranks)[0, 1] == pytest.approx(wanted, abs=0.02)


# -- sessions and prefixes ---------------------------------------------------------------------------------------------
def test_prompts_hold_the_turns_before() -> None:
    requests = generate(
        spec(
            num_requests=100, input_tokens=law("uniform", min=5, max=50), sessions=Sessions(turns=law("fixed", mean=4))
        )
    ).requests
    for i in range(100):
        if i % 4:
            assert requests.follow[i - 1] == i
            assert requests.prefix_tokens[i] == requests.input_tokens[i - 1] + requests.output_tokens[i - 1]
            assert requests.group[i] == requests.group[i - 1]
        else:
            assert requests.prefix_tokens[i] == 0 and requests.input_tokens[i] <= 50
            assert i == 0 or requests.follow[i - 1] == -1


def test_requests_of_sessions_keep_the_rate() -> None:
    requests = generate(spec(sessions=Sessions(turns=law("uniform", min=1, max=9), think_time_s=30.0))).requests
    heads = requests.order()
    assert len(requests) / requests.arrival_s[heads].max() == pytest.approx(20, rel=0.03)
    pauses = requests.delay_s[requests.follow >= 0]
    assert pauses.mean() == pytest.approx(30, rel=0.03) and pauses.std() == pytest.approx(30, rel=0.05)


def test_all_but_the_first_prompt_find_the_shared_prefix() -> None:
    requests = generate(spec(shared_prefix_tokens=60)).requests
    assert requests.prefix_tokens[0] == 0 and (requests.prefix_tokens[1:] == 60).all()
    drawn = generate(spec(input_tokens=law("uniform", min=10, max=100), shared_prefix_tokens=60))
    assert drawn.requests.input_tokens.min() == 61
    assert "were drawn shorter than the shared prefix" in drawn.assumed[0][2]
    with pytest.raises(BadInput, match="shared_prefix_tokens = 100: must be below input_tokens"):
        generate(spec(shared_prefix_tokens=100))


# -- bad input ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"process": "diurnal", "peak_to_mean": 3}, "peak_to_mean = 3.0: must be at most 2"),
        ({"process": "bursty", "period_s": 0}, "period_s = 0: must be above 0"),
        ({"burstiness": 0.5}, "burstiness = 0.5: is read by gamma and bursty alone"),
        ({"concurrency": 4, "num_requests": None}, "num_requests: is required by concurrency and offline"),
    ],
)
def test_settings_that_cannot_hold(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spec(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"distribution": "zipf", "mean": 9}, "max: is required by distribution zipf"),
        ({"distribution": "zipf", "mean": 90, "max": 100}, "mean = 90.0: must be above min and at most 50.5"),
        ({"distribution": "zipf", "mean": 90, "max": 10**9}, "must be at most 1048576 above min"),
        ({"mean": 90, "max": 50}, "mean = 90.0: must be from min"),
        ({"mean": 90, "cv": 0.5}, "cv: is not read by distribution fixed"),
        ({"distribution": "gamma", "mean": 9, "values": (3,)}, "values: is not read by distribution gamma"),
    ],
)
def test_lengths_that_cannot_hold(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Lengths(**given)
    assert caught.type is not Inconsistent  # pydantic's, which the loader turns into lines


def test_a_scenario_says_the_line_of_each() -> None:
    with pytest.raises(BadInput) as caught:
        load_scenario(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "cluster": {"device": "h100-sxm-80gb", "nodes": 1},
                "serving": {
                    "traffic": {
                        "rate_per_s": 1,
                        "num_requests": 5,
                        "input_tokens": {"distribution": "zipf", "mean": 5},
                        "output_tokens": {"mean": 3, "cv": 2},
                    }
                },
            }
        )
    text = str(caught.value)
    assert "serving.traffic.input_tokens.max: is required" in text
    assert "serving.traffic.output_tokens.cv: is not read" in text


def test_warmup_leaves_requests() -> None:
    assert generate(spec(num_requests=10, warmup_requests=9)).warmup_requests == 9
    with pytest.raises(BadInput, match="warmup_requests = 10: must be below the number of requests, 10"):
        generate(spec(num_requests=10, warmup_requests=10))
