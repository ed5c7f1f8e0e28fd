"""What low-rank adapters and a quantised base cost in time."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.training.predict import prepare


def moved(**lora: Any) -> dict[str, float]:
    """Bytes of one layer's products by direction."""
    scenario = {
        "model": "meta-llama/Llama-3.2-3B",
        "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
        "training": {"seq_len": 4096, "global_batch": 2, "framework": "torchtune", "phase": "lora", "lora": lora},
        "plan": {"mbs": 2},
    }
    built = prepare(scenario)[0].stages
    return {
        d: sum(
            x.hbm_bytes
            for s in built.segments
            if s.direction == d and s.name not in ("embedding", "head")
            for x in s.launches
            if x.kind == "gemm"
        )
        for d in "FB"
    }


def test_adapters_move_their_inputs_outputs_and_gradients() -> None:
    none, one = moved(targets=["proj"]), moved(targets=["proj", "fc2"])
    tokens, n, k = 2 * 4096.0, 3072.0, 8192.0
    assert one["F"] - none["F"] == pytest.approx(2 * tokens * (k + 4 * n))
    assert one["B"] - none["B"] == pytest.approx(2 * tokens * (4 * n + 5 * k))


def test_a_four_bit_base_is_unpacked_before_each_use() -> None:
    plain, quantised = moved(), moved(quantized_base=True)
    weights = 3072.0 * (3072 + 2 * 1024 + 3072 + 3 * 8192)
    for direction in "FB":
        assert quantised[direction] - plain[direction] == pytest.approx(2.56 * weights, rel=1e-6)
