"""Rates of open loops: what is offered comes out, whatever the last answers take to drain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api


def _scenario(rate: float, count: int, output: int, **more: Any) -> dict[str, Any]:
    load = {"rate_per_s": rate, "num_requests": count, "input_tokens": 200, "output_tokens": output, **more}
    return {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "serving": {"engine": "vllm", "pools": [{"replicas": 2}], "traffic": load},
    }


def test_an_unsaturated_run_puts_out_what_is_offered() -> None:
    """Steady state: what is offered comes out; the last answers take half of the arrivals."""
    r = api.simulate_serving(_scenario(4.0, 160, 2000, process="constant"))
    assert not r.saturated and r.measured_in_s is not None
    assert r.drain_s > 0.25 * r.measured_in_s[1]
    assert r.output_tokens_per_s == pytest.approx(4.0 * 2000, rel=0.06)
    assert r.throughput_requests_per_s == pytest.approx(4.0, rel=0.06)
    assert r.whole_run_output_tokens_per_s == pytest.approx(160 * 2000 / r.duration_s)
    assert r.whole_run_output_tokens_per_s < 0.85 * r.output_tokens_per_s


def test_what_a_token_costs_does_not_depend_on_the_length_of_the_run() -> None:
    short, long = (api.simulate_serving(_scenario(4.0, n, 2000, process="constant")) for n in (200, 1000))
    assert short.cost_per_million_output_tokens == pytest.approx(long.cost_per_million_output_tokens, rel=0.05)
    each = [r.power["energy_per_output_token_j"] for r in (short, long)]
    assert each[0] == pytest.approx(each[1], rel=0.05)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_more_comes_out_than_arrives(seed: int) -> None:
    r = api.simulate_serving(_scenario(10.0, 200, 500, seed=seed))
    span = float(np.ptp(r.table["arrival_s"]))
    assert r.output_tokens_per_s <= 200 * 500 / span * (1 + 1e-9)


def test_closed_loops_and_batches_are_measured_whole() -> None:
    for load in ({"concurrency": 8}, {"offline": True}):
        own = _scenario(1.0, 100, 100)
        own["serving"]["traffic"] = {"num_requests": 100, "input_tokens": 200, "output_tokens": 100, **load}
        r = api.simulate_serving(own)
        assert r.measured_in_s is None
        assert r.output_tokens_per_s == pytest.approx(r.whole_run_output_tokens_per_s)


def test_the_report_names_the_drain() -> None:
    from windtunnel.views.serve_words import window_text

    r = api.simulate_serving(_scenario(4.0, 160, 2000))
    assert "drain" in window_text(r) and "last arrival" in window_text(r)
