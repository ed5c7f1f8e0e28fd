"""Laws of instances that come and go: nobody lost, bounds kept, what is paid is what is held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from serving_requests import LIMITS, LINEAR, drawn

from windtunnel.errors import BadInput
from windtunnel.serving.autoscale import Replicas, start_up
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.requests import DONE, REJECTED, Requests
from windtunnel.serving.simulate import simulate_serving
from windtunnel.specs.autoscale import AutoscaleSpec


def spec(**more: Any) -> AutoscaleSpec:
    given = {"max": 4, "target": 6.0, "interval_s": 2.0, "cooldown_s": 6.0, "start_up_s": 3.0} | more
    return AutoscaleSpec.model_validate(given)


def served(own: AutoscaleSpec, requests: Requests, initial: int = 1) -> Replicas:
    control = Replicas(own, own.start_up_s or 0.0, initial)
    reference.serve(requests, LINEAR, LIMITS, own.max, LoopRules(control=control))
    return control


def burst(seed: int = 0, **more: Any) -> Requests:
    given = {"rate_per_s": 16.0, "num_requests": 1000, "process": "bursty", "period_s": 40.0, "peak_to_mean": 3.0}
    return drawn(seed, **(given | more))


@pytest.mark.parametrize("signal", ["concurrency", "waiting", "kv_cache_usage", "rate"])
def test_nobody_is_lost_and_bounds_hold(signal: str) -> None:
    target = {"concurrency": 6.0, "waiting": 2.0, "kv_cache_usage": 0.5, "rate": 8.0}[signal]
    for low in (1, 2):
        requests = burst(low)
        control = served(spec(signal=signal, target=target, min=low), requests, low)
        assert set(requests.state.tolist()) <= {DONE, REJECTED}
        serving = [up for _, up, _ in control.changes]
        held = [up + starting for _, up, starting in control.changes]
        assert min(serving) >= 1
        assert max(held) <= 4
        assert max(serving) > low  # the burst was answered
        assert min(serving[3:]) == low  # and what it brought went again


def test_no_request_is_served_by_an_instance_before_it_has_started() -> None:
    requests = burst(3)
    own = spec(start_up_s=5.0)
    control = served(own, requests)
    first_up: dict[int, float] = {}
    for k in range(1, 4):
        mine = requests.instance == k
        if mine.any():
            first_up[k] = float(requests.scheduled_s[mine].min())
    assert first_up
    starts = sorted(t for (t, up, st), (_, a, b) in zip(control.changes[1:], control.changes, strict=False) if st > b)
    assert min(first_up.values()) >= starts[0] + 5.0


def test_what_is_paid_is_what_is_held() -> None:
    requests = burst(1)
    control = served(spec(), requests)
    end = float(requests.finish_s.max())
    area = [0.0]
    for (t0, up, starting), (t1, _, _) in zip(control.changes, [*control.changes[1:], (end, 0, 0)], strict=True):
        area.append((up + starting) * (min(t1, end) - t0))
    held = control.instance_seconds(end)
    assert sum(area) <= held + 1e-6  # instances that drain are held too, but do not count as serving
    assert held < 4 * end * 0.9
    always = burst(1)
    reference.serve(always, LINEAR, LIMITS, 4)
    assert always.finish_s.max() <= end + 1e-9


def test_a_slower_start_makes_the_burst_wait_longer() -> None:
    late = []
    for seconds in (0.0, 4.0, 12.0):
        requests = burst(2)
        served(spec(start_up_s=seconds), requests)
        late.append(float(np.nanmean(requests.first_token_s - requests.arrival_s)))
    assert late[0] < late[1] < late[2]


@pytest.mark.parametrize(("target", "settled"), [(3.0, {2, 3}), (5.0, {2}), (6.0, {1, 2})])
def test_a_steady_load_settles(target: float, settled: set[int]) -> None:
    """In the second half of the arrivals the number of instances stays, or goes to and fro between two."""
    requests = drawn(4, rate_per_s=12.0, num_requests=900, process="constant")
    control = served(spec(target=target), requests)
    last = float(requests.arrival_s[~np.isnan(requests.arrival_s)].max())
    at_half = [up for t, up, _ in control.changes if t <= last * 0.5][-1]
    assert {at_half, *(up for t, up, _ in control.changes if last * 0.5 < t < last)} == settled


SCENARIO = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
    "serving": {
        "pools": [{"replicas": 1, "limits": {"max_num_seqs": 32}}],
        "autoscale": {"max": 4, "target": 24, "interval_s": 5, "cooldown_s": 20, "engine_start_s": 10},
        "traffic": {
            "rate_per_s": 12,
            "num_requests": 5000,
            "input_tokens": 512,
            "output_tokens": 200,
            "process": "bursty",
            "period_s": 200,
            "peak_to_mean": 4,
        },
    },
}


def test_scenario() -> None:
    scaled = simulate_serving(SCENARIO)
    own = {k: v for k, v in SCENARIO["serving"].items() if k != "autoscale"}  # type: ignore[attr-defined]
    fixed = simulate_serving(SCENARIO | {"serving": own | {"pools": [{"replicas": 4, "limits": {"max_num_seqs": 32}}]}})
    assert scaled.completed == fixed.completed == 5000
    s = scaled.scaling
    weights = scaled.capacity["weights_bytes"]
    assert s["start_up_s"] == pytest.approx(weights / 5e9 + 10)
    assert 1 <= s["instances_min"] < s["instances_mean"] < s["instances_max"] <= 4
    assert s["device_hours"] == pytest.approx(s["instances_mean"] * (scaled.duration_s + 0) / 3600, rel=0.02)
    assert scaled.cost_per_million_output_tokens is not None and fixed.cost_per_million_output_tokens is not None
    assert scaled.cost_per_million_output_tokens < fixed.cost_per_million_output_tokens
    assert scaled.ttft_s.p99 > fixed.ttft_s.p99
    assert {"serving.autoscale.storage_bytes_per_s"} <= {row["field"] for row in scaled.assumed}
    four = [{"replicas": 4, "limits": {"max_num_seqs": 32}}]
    all_the_time = {"min": 4, "max": 4, "target": 24, "start_up_s": 0}
    again = simulate_serving(SCENARIO | {"serving": own | {"autoscale": all_the_time, "pools": four}})
    assert again.e2e_s.mean == fixed.e2e_s.mean  # nothing to scale: the same run
    assert again.cost_per_million_output_tokens == pytest.approx(fixed.cost_per_million_output_tokens, rel=0.02)


def test_what_is_wrong_is_said() -> None:
    serving = dict(SCENARIO["serving"], pools=[{"replicas": 5}])  # type: ignore[call-overload]
    with pytest.raises(BadInput, match=r"from autoscale\.min 1 to autoscale\.max 4"):
        simulate_serving(SCENARIO | {"serving": serving})
    with pytest.raises(ValueError, match="must be at least min 3"):
        spec(min=3, max=2)
    assert start_up(spec(start_up_s=7.0), 1e12).seconds == 7.0
