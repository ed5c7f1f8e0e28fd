"""Tenants, tasks and scaling on the terminal."""

from __future__ import annotations

from typing import Any

from view_texts import printed

from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.simulate import simulate_serving
from windtunnel.views import serve
from windtunnel.writers import html


def simulated(**serving: Any) -> ServingResult:
    return simulate_serving(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
            "serving": serving,
        }
    )


def shown(result: ServingResult) -> str:
    return printed(serve.view(result), 100)


def test_tenants_and_scaling() -> None:
    lengths = {"input_tokens": 200, "output_tokens": 50, "num_requests": 200, "rate_per_s": 40}
    result = simulated(
        pools=[{"admission": {"requests_per_minute": {"requests": 60}}}],
        autoscale={"max": 2, "target": 2, "interval_s": 1, "start_up_s": 1},
        traffic=lengths | {"tenants": [{"name": "anna"}, {"name": "bert", "share": 0.1}]},
    )
    text, page = shown(result), html.render(serve.view(result))
    assert "<b>anna</b>" in page and "device-hours" in page
    assert "anna" in text and "bert" in text and "shed" in text
    assert "Jain's index" in text
    assert "Scaling" in text and "device-hours" in text


def test_tasks() -> None:
    calls = [
        {"id": "a", "input_tokens": 100, "output_tokens": 20},
        {"id": "b", "after": ["a"], "input_tokens": 10, "output_tokens": 20},
    ]
    text = shown(simulated(traffic={"rate_per_s": 5, "num_requests": 20, "agents": [{"name": "pair", "calls": calls}]}))
    assert "pair: 20 of 2 requests" in text
