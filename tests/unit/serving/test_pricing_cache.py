"""What runs of one search keep: the same instance prices its iterations once, and nothing changes by it."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel import api
from windtunnel.serving import deployment
from windtunnel.serving.iteration import pricing_cache


def scenario(rate: float, **cluster: Any) -> dict[str, Any]:
    traffic = {"rate_per_s": rate, "num_requests": 20, "input_tokens": 200, "output_tokens": 20}
    return {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1, **cluster},
        "serving": {"engine": "vllm", "pools": [{"plan": {"tp": 1}}], "traffic": traffic},
    }


def test_the_same_instance_is_priced_once_and_gives_the_same(monkeypatch: Any) -> None:
    alone = [api.simulate_serving(scenario(rate)) for rate in (1.0, 4.0)]
    real, priced = deployment.with_power_cap, []

    def counted(*given: Any, **more: Any) -> Any:
        priced.append(given)
        return real(*given, **more)

    monkeypatch.setattr(deployment, "with_power_cap", counted)
    with pricing_cache.reuse_prices():
        together = [api.simulate_serving(scenario(rate)) for rate in (1.0, 4.0)]
        assert len(priced) == 1
        with pricing_cache.reuse_prices():  # inside, what is known stays known
            api.simulate_serving(scenario(2.0))
        assert len(priced) == 1
        api.simulate_serving(scenario(1.0, power_cap_w=400))
        assert len(priced) == 2, "another cluster is another instance"
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.table["e2e_s"], other.table["e2e_s"])
    api.simulate_serving(scenario(1.0))
    assert len(priced) == 3, "outside nothing is kept"
