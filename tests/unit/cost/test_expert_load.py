"""Loads of experts: chances, placements, the slowest rank against draws one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import windtunnel as wt
from windtunnel.cost.expert_load import ExpertLoad, as_they_come, balanced, drawn, slowest
from windtunnel.errors import BadInput, Infeasible
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.simulate import prepare
from windtunnel.techniques.limits import merged

WIDE: dict[str, Any] = {
    "model": "deepseek-ai/DeepSeek-V3",
    "cluster": {"device": "h200-sxm-141gb", "nodes": 4, "devices_per_node": 8},
    "serving": {
        "engine": "sglang",
        "precision": {"weights": "fp8_block"},
        "pools": [{"plan": {"dp": 32, "ep": 32}}],
        "traffic": {"offline": True, "num_requests": 64, "input_tokens": 256, "output_tokens": 8},
    },
}


@pytest.mark.parametrize("popularity", [0.0, 0.3, 1.0, 2.0])
def test_a_token_draws_its_experts_and_none_twice(popularity: float) -> None:
    chance = drawn(256, 8.0, popularity)
    assert chance.sum() == pytest.approx(8.0) and chance.max() <= 1.0 + 1e-12
    assert (np.diff(chance) <= 1e-12).all()


def test_every_token_of_an_expert_is_computed_once() -> None:
    chance = drawn(64, 4.0, 0.8)
    for share in (balanced(chance, 8, 0), balanced(chance, 8, 16), as_they_come(chance, 8, 1)):
        np.testing.assert_allclose(share.sum(0), 1.0)
    copied, plain, blind = (
        (s @ chance).max() for s in (balanced(chance, 8, 16), balanced(chance, 8, 0), as_they_come(chance, 8, 1))
    )
    assert 4.0 / 8 * (1 - 1e-12) <= copied < plain < blind


@pytest.mark.parametrize("tokens", [64, 1024])
@pytest.mark.parametrize("load", [ExpertLoad(popularity=0.0), ExpertLoad(popularity=0.6, redundant=16, balanced=True)])
def test_the_slowest_rank_is_what_independent_draws_give(tokens: int, load: ExpertLoad) -> None:
    chance = drawn(64, 4.0, load.popularity)
    share = balanced(chance, 8, load.redundant) if load.balanced else as_they_come(chance, 8, 0)
    rng, most = np.random.default_rng(5), []
    for _ in range(400):
        count = rng.binomial(tokens, chance)
        most.append((share @ count).max())
    found, _ = slowest(64, 4.0, 8, load, np.array([float(tokens)]))
    assert found[0] == pytest.approx(np.mean(most) / (tokens * 4.0 / 8), rel=0.03)


def test_even_loads_are_the_mean_in_the_end_and_uneven_ones_are_not() -> None:
    n = np.array([1e2, 1e4, 1e7])
    even, uneven = (slowest(256, 8.0, 32, ExpertLoad(popularity=p), n)[0] for p in (0.0, 0.5))
    assert even[0] > even[1] > even[2] > 1.0 and even[2] == pytest.approx(1.0, abs=0.01)
    assert uneven[2] > 1.5 and (uneven > even).all()


def test_one_rank_waits_for_nobody() -> None:
    over, touched = slowest(256, 8.0, 1, ExpertLoad(popularity=0.8), np.array([1.0, 100.0, 1e5]))
    np.testing.assert_allclose(over, 1.0, rtol=1e-6)
    assert touched[-1] == pytest.approx(256, rel=0.01)


def test_copies_take_memory_and_places_have_to_come_out_even() -> None:
    def bytes_of(**load: Any) -> float:
        return prepare(merged(WIDE, {"serving": {"expert_load": load}})).iteration.linear.weight_bytes

    plain, copied = bytes_of(), bytes_of(eplb=True, num_redundant_experts=64)
    assert copied - plain == pytest.approx(58 * 2 * 3 * 7168 * 2048, rel=0.01)
    with pytest.raises(BadInput, match="with 3 redundant ones"):
        bytes_of(eplb=True, num_redundant_experts=3)
    with pytest.raises(BadInput, match="needs eplb: true"):
        bytes_of(num_redundant_experts=32)
    with pytest.raises(Infeasible):
        bytes_of(eplb=True, num_redundant_experts=8192)


def test_placing_anew_costs_by_its_interval() -> None:
    often, seldom = (
        wt.simulate_serving(
            merged(WIDE, {"serving": {"expert_load": {"eplb": True, "step_interval": steps}}})
        ).iterations["mean_s"]
        for steps in (10, 10000)
    )
    assert often > seldom


def test_many_tokens_cross_to_a_node_once_and_few_go_straight() -> None:
    d = prepare(WIDE)
    layers = Layers(d.model, d.cluster, d.instance.shape, d.iteration.coefficients, d.serving.expert_skew)
    c, nic = layers.c, layers.c.all_to_all_fraction * d.cluster.nic_bytes_per_s_per_device
    up = c.all_to_all_fraction * d.cluster.scale_up.bytes_per_s
    others = 31 * (1 - (31 / 32) ** 8)  # ranks next to its own that have an expert of a token
    back = 2.0 + d.instance.shape.expert.bytes_dispatched
    for tokens, copies in ((32.0, others * 24 / 31), (32.0 * 16384, 3 * (1 - 0.75**8))):
        size = tokens / 32 * back * d.model.hidden_size
        starts = 2.0 if copies > 4 else 4.0
        expected = starts * c.all_to_all_s + others * size / up + copies * size / nic
        assert layers._exchange(np.array([tokens]))[0] == pytest.approx(expected, rel=1e-9)


def test_grouped_products_of_many_rows_near_one_large_product() -> None:
    from windtunnel.cost.streamed import filled

    rows = np.array([1.0, 300.0, 512.0, 1024.0, 2460.0, 9832.0])
    for fitted in (0.24, 0.59, 0.95):
        found = filled(fitted, rows)
        assert (np.diff(found) >= 0.0).all() and (found[:3] == fitted).all()
        assert found.max() <= max(fitted, 0.8)
    measured = np.array([0.59, 0.70, 0.80, 0.75])  # B200, bf16, over one large product
    assert filled(0.59, rows[2:]) == pytest.approx(measured, rel=0.1)
