"""Techniques that send less: ranks by knapsack, directions of steps without gradients, what advice says of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from windtunnel import api, catalog
from windtunnel.errors import BadInput
from windtunnel.techniques import applied
from windtunnel.techniques.compressing import ETHERNET
from windtunnel.techniques.limits import merged
from windtunnel.techniques.published.l_greco import BINS, cheapest, ranks_of, tail

KNOBS: dict[str, Any] = {"rank": 4, "decay": 1.0, "decays": {}}


@pytest.mark.parametrize("seed", range(8))
def test_the_knapsack_finds_what_enumeration_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs = np.sort(rng.uniform(1, 10, (4, 5)))
    errors = np.sort(rng.uniform(0, 1, (4, 5)))[:, ::-1]
    budget = float(errors[:, 2].sum())
    steps = np.ceil(errors / budget * BINS - 1e-9)
    every = [
        sum(costs[i, j] for i, j in enumerate(choice))
        for choice in product(range(5), repeat=4)
        if sum(steps[i, j] for i, j in enumerate(choice)) <= BINS
    ]
    chosen = cheapest(costs, errors, budget)
    assert sum(costs[i, j] for i, j in enumerate(chosen)) == pytest.approx(min(every))
    assert sum(errors[i, j] for i, j in enumerate(chosen)) <= budget


def test_ranks_follow_spectra() -> None:
    """A layer whose singular values fall fast needs fewer columns than one whose values hardly fall."""
    model = catalog.model("openai-community/gpt2")
    ranks = ranks_of(model, KNOBS | {"decays": {"fc1": 2.0, "fc2": 0.5}})
    assert ranks["fc1"] < ranks["fc2"]
    assert tail(100, [1, 4, 100], 1.0)[-1] == pytest.approx(0.0)


def test_layers_of_unlike_spectra_travel_in_fewer_bytes_than_at_one_rank() -> None:
    spectra = {"decays": {"fc1": 2.0, "fc2": 2.0, "qkv": 0.3, "proj": 0.3}, "rank": 32}
    by_layer = api.simulate_training(ETHERNET | {"techniques": [{"l-greco": spectra}]}, sensitivities=False)
    at_one = api.simulate_training(ETHERNET | {"techniques": [{"powersgd": {"rank": 32}}]}, sensitivities=False)
    assert by_layer.step_time_s < at_one.step_time_s


def test_directions_cost_a_pass_over_the_weights_each() -> None:
    case = merged(ETHERNET, {"training": {"gradients": "zeroth_order", "precision": "bf16"}})
    times = [
        api.simulate_training(merged(case, {"training": {"directions": n}}), sensitivities=False).step_time_s
        for n in (1, 17, 33)
    ]
    assert times[1] - times[0] == pytest.approx(times[2] - times[1], rel=0.02)
    device, params = catalog.device("v100-sxm-32gb"), 1.56e9
    assert times[1] - times[0] > 16 * 4.0 * params / device.memory_bytes_per_s  # 16 bits read and written


def test_directions_need_steps_of_zeroth_order() -> None:
    with pytest.raises(BadInput, match="zeroth_order"):
        api.simulate_training(merged(ETHERNET, {"training": {"directions": 8}}), sensitivities=False)


@pytest.mark.parametrize("other", ["terngrad", "tagc", "one-bit-adam", "l-greco", "co2", "qsdp", "frontier-zero-topo"])
def test_one_compressor_at_a_time(other: str) -> None:
    with pytest.raises(BadInput, match="conflicts with"):
        applied(["powersgd", other])


LOSSY = {"powersgd", "one-bit-adam", "terngrad", "dettmers-8bit", "tagc", "qsdp"}


def offered(change: dict[str, Any]) -> dict[str, float]:
    """Compressors that advice lists as lossy → gain."""
    found = api.advise(merged(ETHERNET, change), pairs=False)
    assert not any(LOSSY & set(one.names) for one in found.suggestions), "gains that may cost quality stand apart"
    return {name: one.gain for one in found.unlike for name in one.names if name in LOSSY}


@pytest.mark.slow
def test_compression_is_advised_where_the_network_is_slow_alone() -> None:
    slow = offered({})
    fast = offered({"cluster": {"nodes": 1}, "training": {"global_batch": 256}})
    assert len(slow) >= 3 and min(slow.values()) > 0.1
    assert max(fast.values(), default=0.0) < 0.05
