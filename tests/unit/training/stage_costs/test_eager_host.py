"""Frameworks that run single operators from Python have a host: small models wait for launches, large ones do not."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.training.predict import simulate_training


def _host_share(framework: str, model: str, seq_len: int, **training: Any) -> float:
    """Share of the step in which the device waits for launches."""
    given = {
        "model": model,
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": seq_len, "global_batch": 8, "framework": framework, **training},
        "plan": {"mbs": 1, "tp": 1, "pp": 1},
    }
    result = simulate_training(given, sensitivities=False)
    return result.breakdown.get("host", 0.0) / result.step_time_s


@pytest.mark.parametrize("framework", ["nanotron", "deepspeed", "transformers"])
def test_a_1b_model_on_short_sequences_is_bound_by_launches(framework: str) -> None:
    short = _host_share(framework, "meta-llama/Llama-3.2-1B", 512)
    assert short > 0.1
    assert _host_share(framework, "meta-llama/Llama-3.2-1B", 8192) < 0.5 * short


def test_a_graph_over_the_step_launches_nothing() -> None:
    eager = _host_share("nanotron", "meta-llama/Llama-3.2-1B", 512)
    assert _host_share("nanotron", "meta-llama/Llama-3.2-1B", 512, cuda_graphs="full") < 0.05 * eager
