"""Measures of requests, and the verb that shows them."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import yaml

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.serving.event_loop import reference, requests
from windtunnel.serving.event_loop.instance_limits import Limits, Router
from windtunnel.serving.event_loop.kernels import records
from windtunnel.serving.event_loop.requests import DONE, Requests
from windtunnel.serving.results import metrics
from windtunnel.specs.serving import SloSpec

EXAMPLE = Path(__file__).parents[4] / "examples/serving/llama3-70b-4xh100.yaml"


def finished() -> Requests:
    """Three answered requests of 1, 2 and 11 tokens."""
    r = Requests(
        arrival_s=np.array([0.0, 1.0, 2.0]),
        input_tokens=np.full(3, 10, np.int32),
        output_tokens=np.array([1, 2, 11], np.int32),
    )
    r.scheduled_s, r.first_token_s = np.array([0.0, 1.5, 2.0]), np.array([0.5, 2.0, 2.5])
    r.finish_s, r.state = np.array([0.5, 2.1, 3.5]), np.full(3, DONE, np.int32)
    return r


def test_measures_are_those_of_vllm_bench() -> None:
    found = metrics.measures(finished(), 0.1)
    np.testing.assert_allclose(found.ttft_s, [0.6, 1.1, 0.6])
    np.testing.assert_allclose(found.e2e_s, [0.6, 1.2, 1.6])
    np.testing.assert_allclose(found.tpot_s, [np.nan, 0.1, 0.1])
    np.testing.assert_allclose(found.queue_s, [0.0, 0.5, 0.0])


def test_good_requests_meet_every_part() -> None:
    found = metrics.measures(finished(), 0.0)
    assert found.good(SloSpec()).tolist() == [True, True, True]
    assert found.good(SloSpec(ttft_s=0.9)).tolist() == [True, False, True]
    assert found.good(SloSpec(ttft_s=0.9, tpot_s=0.05)).tolist() == [True, False, False]


def test_warmup_is_left_out() -> None:
    found = metrics.measures(finished(), 0.0, warmup=1)
    assert np.isnan(found.ttft_s[0])
    assert found.good(SloSpec()).sum() == 2


def test_bins_are_those_of_the_loop() -> None:
    assert metrics.HISTOGRAM_LOW_S == records.HISTOGRAM_LOW_S
    assert metrics.HISTOGRAM_PER_DECADE == records.HISTOGRAM_PER_DECADE


def test_the_loop_and_its_twin_have_the_same_constants() -> None:
    """Both write them down: Numba's cache of one file does not see a change in another."""
    assert (records.MILLION, records.EXPECTED_MOST) == (reference.MILLION, reference.EXPECTED_MOST)
    assert (records.DONE, records.REJECTED) == (requests.DONE, requests.REJECTED)
    names = ("ROUND_ROBIN", "RANDOM", "LEAST_REQUESTS", "LEAST_TOKENS", "POWER_OF_TWO", "STICKY", "GANG")
    assert {name: getattr(records, name) for name in names} == dict(Router.__members__)
    assert set(records.LIMITS.names or ()) == {f.name for f in fields(Limits)}


def test_histogram_is_within_a_bin() -> None:
    counts = np.zeros(records.HISTOGRAM_BINS)
    at = int(np.floor(np.log10(0.02 / metrics.HISTOGRAM_LOW_S) * metrics.HISTOGRAM_PER_DECADE))
    counts[at] = 100
    d = metrics.from_histogram(counts)
    assert d.count == 100
    assert d.p50 == pytest.approx(0.02, rel=0.012)
    assert metrics.from_histogram(np.zeros(3)).count == 0


def test_a_run_past_saturation_says_so() -> None:
    calm = api.simulate_serving(EXAMPLE)
    over = api.simulate_serving(EXAMPLE, overrides=("serving.traffic.rate_per_s=60",))
    assert not calm.saturated
    assert over.saturated
    assert any("steady state" in w for w in over.warnings)


def test_json_has_what_outside_tools_read() -> None:
    data = json.loads(json.dumps(api.simulate_serving(EXAMPLE).to_dict(), allow_nan=False))
    for key in (
        "requests",
        "duration_s",
        "throughput_requests_per_s",
        "output_tokens_per_s",
        "output_tokens_per_s_per_device",
        "slo_attainment",
        "goodput_requests_per_s",
        "kv_cache_usage_max",
        "preemptions",
        "saturated",
        "simulated_in_s",
    ):
        assert key in data
    for key in ("ttft_s", "tpot_s", "itl_s", "e2e_s"):
        assert {"mean", "p50", "p90", "p99"} <= set(data[key])


def test_one_request_takes_the_closed_form() -> None:
    """Light load: nothing waits, and an answer takes its prompt's iteration and one step a further token."""
    from windtunnel.serving.simulate import prepare

    d = prepare(EXAMPLE, overrides=("serving.traffic.input_tokens=1000", "serving.traffic.output_tokens=100"))
    r = api.simulate_serving(
        EXAMPLE,
        overrides=(
            "serving.traffic.input_tokens=1000",
            "serving.traffic.output_tokens=100",
            "serving.traffic.rate_per_s=0.01",
            "serving.traffic.num_requests=20",
            "serving.traffic.process=constant",
        ),
    )
    m = d.iteration
    prompt = m.seconds(1000, pairs=0.5e6, prompt_tokens=1000, sequences=1)
    steps = sum(m.seconds(1, kv=1001 + i, sequences=1) for i in range(99))
    assert r.ttft_s.mean == pytest.approx(prompt + m.request_s, rel=1e-9)
    assert r.tpot_s.mean == pytest.approx(steps / 99, rel=1e-9)
    assert r.queue_s.max == 0.0


def test_all_problems_at_once() -> None:
    scenario = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    scenario["serving"]["router"] = "nowhere"
    scenario["serving"]["pools"] = [{"replicas": 9, "plan": {"tp": 7}, "limits": {"mem_fraction_static": 0.9}}]
    with pytest.raises(BadInput) as caught:
        api.simulate_serving(scenario)
    found = {p.field for p in caught.value.problems}
    pool = "serving.pools[0]"
    assert {"serving.router", "serving.pools", f"{pool}.plan.tp", f"{pool}.limits.mem_fraction_static"} <= found


def test_bands_and_what_they_rest_on() -> None:
    known = api.simulate_serving(EXAMPLE)
    band = known.intervals["ttft_s"]
    assert band["low"] < known.ttft_s.mean < band["high"]
    assert known.grades["ttft_s"] == band["grade"] == "fitted"
    unknown = api.simulate_serving(EXAMPLE, overrides=("cluster.device=mi300x",))
    assert unknown.grades["ttft_s"] != "fitted"
    assert any("no measured rows" in w for w in unknown.warnings)


def test_requests_keep_to_the_longest_context() -> None:
    base = ("serving.traffic.num_requests=50", "serving.pools[0].limits.max_model_len=2000")
    fixed = ("serving.traffic.input_tokens=1900", "serving.traffic.output_tokens=300")
    cut = api.simulate_serving(EXAMPLE, overrides=(*base, *fixed))
    assert cut.rejected == 0
    assert (cut.table["output_tokens"] == 100).all()
    assert any("answers end at max_model_len 2,000" in w for w in cut.warnings)
    long = api.simulate_serving(EXAMPLE, overrides=(*base, "serving.traffic.input_tokens=2000"))
    assert long.rejected == 50
    assert (long.table["input_tokens"] == 2000).all()
    assert [w for w in long.warnings if "rejected" in w] == [
        "50 prompts are longer than max_model_len 2,000: they were rejected"
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("model=google-bert/bert-base-uncased", "model"),
        ("model=google/t5-v1_1-xl", "model"),
        ("serving.engine_version=abc", "serving.engine_version"),
    ],
)
def test_what_cannot_be_served_is_refused(change: str, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        api.simulate_serving(EXAMPLE, overrides=(change,))
    assert field in {p.field for p in caught.value.problems}
