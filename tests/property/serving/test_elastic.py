"""Laws of an instance that changes its size: nobody lost; in place nothing stops, a restart serves nobody meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel.serving.autoscale.resize_time import Size, cold, experts_and_rest, growth
from windtunnel.serving.simulate import simulate_serving
from windtunnel.specs.autoscale import AutoscaleSpec

PLANS = [{"tp": 2, "dp": 1, "ep": 2}, {"tp": 2, "dp": 2, "ep": 4}]


def spec(method: str, **more: Any) -> AutoscaleSpec:
    return AutoscaleSpec.model_validate({"method": method, "target": 20.0, "plans": PLANS} | more)


def scenario(method: str, **more: Any) -> dict[str, Any]:
    return {
        "model": "deepseek-ai/DeepSeek-V2-Lite",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
        "serving": {
            "pools": [{"plan": PLANS[0], "limits": {"max_num_seqs": 32}}],
            "autoscale": {"method": method, "target": 24, "plans": PLANS, "interval_s": 2, "cooldown_s": 1000} | more,
            "traffic": {"rate_per_s": 20, "num_requests": 1200, "input_tokens": 500, "output_tokens": 200},
        },
    }


def test_weights_of_two_sizes_say_what_is_shared() -> None:
    experts, rest = experts_and_rest(Size(2, 2, 18.0), Size(4, 2, 10.0))
    assert (experts, rest) == (32.0, 2.0)
    own = growth(spec("in_place", reconfigure_s=1.0), Size(2, 2, 18.0), Size(4, 2, 10.0), 5.0)
    assert own.moved_bytes == 2 * (2.0 + 32.0 / 4)
    assert own.seconds == max(10.0, 20.0 / 2) / 5.0 + 1.0
    assert own.downtime_s == 0.0
    anew = growth(spec("restart", engine_start_s=3.0, storage_bytes_per_s=4.0), Size(2, 2, 18.0), Size(4, 2, 10.0), 5.0)
    assert anew.seconds == anew.downtime_s == 4 * 10.0 / 4.0 + 3.0
    assert cold(spec("restart", start_up_s=7.0), 1.0).seconds == 7.0


@pytest.mark.parametrize("method", ["in_place", "restart"])
def test_nobody_is_lost_and_it_grows(method: str) -> None:
    result = simulate_serving(scenario(method))
    assert result.completed == 1200
    s = result.scaling
    assert (s["devices_max"], s["growths"][0][1]) == (4, s["start_up_s"])
    assert s["devices_min"] == (0 if method == "restart" else 2)
    assert 2 < s["devices_mean"] <= 4
    begun, took = s["growths"][0]
    first = result.table["arrival_s"] + result.table["ttft_s"]
    while_growing = ((first > begun + 1.0) & (first < begun + took)).sum()
    assert while_growing == 0 if method == "restart" else while_growing > 10


def test_in_place_serves_sooner_and_better_than_a_restart() -> None:
    own, anew = simulate_serving(scenario("in_place")), simulate_serving(scenario("restart"))
    assert own.scaling["start_up_s"] < anew.scaling["start_up_s"] / 3
    assert own.ttft_s.p99 < anew.ttft_s.p99
    assert own.preemptions == 0 < anew.preemptions
    small = simulate_serving(scenario("in_place", target=1e6))
    assert small.scaling["growths"] == []
    assert small.e2e_s.mean > own.e2e_s.mean


def test_it_shrinks_again() -> None:
    given = scenario("in_place", cooldown_s=10)
    given["serving"]["traffic"] |= {
        "process": "bursty",
        "period_s": 60,
        "peak_to_mean": 3,
        "rate_per_s": 7,
        "num_requests": 800,
    }
    changes = np.array(simulate_serving(given).scaling["changes"])
    sizes = changes[:, 1]
    assert {2.0, 4.0} <= set(sizes.tolist())
    assert (np.diff(sizes) < 0).any() and (np.diff(sizes) > 0).any()


def test_what_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ValueError, match=r"plans: of two sizes.*p2p_bytes_per_s: is not read by method restart"):
        AutoscaleSpec.model_validate({"method": "restart", "target": 1, "p2p_bytes_per_s": 1e9})
    with pytest.raises(ValueError, match=r"max: is required by method replicas"):
        AutoscaleSpec.model_validate({"target": 1})
    with pytest.raises(ValueError, match="must grow in devices"):
        AutoscaleSpec.model_validate({"method": "in_place", "target": 1, "plans": PLANS[::-1]})
