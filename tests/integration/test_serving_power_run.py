"""Power in a whole run: what `serve` returns."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.serving.simulate import simulate_serving


def scenario(rate: float, **cluster: Any) -> dict[str, Any]:
    """Llama-3.1-8B on one H100 under Poisson arrivals."""
    return {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1, **cluster},
        "serving": {
            "engine": "vllm",
            "traffic": {"rate_per_s": rate, "num_requests": 300, "input_tokens": 1024, "output_tokens": 128, "seed": 3},
        },
    }


def test_a_busier_instance_draws_more_and_a_token_costs_less() -> None:
    found = [simulate_serving(scenario(rate)) for rate in (0.2, 2.0, 8.0)]
    means = [r.power["mean_w_per_device"] for r in found]
    assert 75.0 < means[0] < means[1] < means[2] <= 700.0
    joules = [r.power["energy_per_output_token_j"] for r in found]
    assert joules[0] > joules[1] > joules[2]
    for r in found:
        assert r.power["energy_j"] == pytest.approx(r.power["mean_w_per_device"] * r.duration_s * r.num_devices)
        assert r.power["idle_share"] == pytest.approx(1.0 - r.iterations["busy_share"], abs=0.02)
        assert r.cost_per_million_output_tokens == r.power["cost_per_million_output_tokens"]


def test_a_cap_saves_watts_and_delays_first_tokens() -> None:
    free, capped = (simulate_serving(scenario(2.0, power_cap_w=w)) for w in (700, 350))
    assert capped.power["mean_w_per_device"] < free.power["mean_w_per_device"]
    assert capped.ttft_s.mean > 1.1 * free.ttft_s.mean
    assert capped.power["prompt_w"] <= 350.0
    assert not capped.warnings
