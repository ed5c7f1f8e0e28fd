"""Bands around memory peaks, the probability that a plan fits, and host memory against offloading."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from windtunnel.training.predict import prepare, simulate_training
from windtunnel.training.results.one_line import fit_line
from windtunnel.training.results.read_result import result_from_dict
from windtunnel.training.results.serialise import result_to_dict
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.uncertainty import memory_interval
from windtunnel.training.uncertainty.memory_interval import MemoryResidual, ResidualSample, comparable_residuals


def leaning(errors: list[float]) -> ResidualSample:
    return ResidualSample(np.array(errors), np.full(len(errors), 1 / len(errors)), "", "fitted")


def test_the_band_is_where_the_errors_put_the_measured_value() -> None:
    """Predictions that are 5 to 15 % high put the true value below the prediction."""
    low, high = leaning(np.log1p(np.linspace(0.05, 0.15, 101)).tolist()).band(100.0)
    assert 100 / 1.15 <= low < 100 / 1.14 and 100 / 1.06 < high <= 100 / 1.05


def test_few_residuals_give_their_extremes() -> None:
    low, high = leaning([-0.1, 0.0, 0.1, 0.02]).band(10.0)
    assert (low, high) == pytest.approx((10 * math.exp(-0.1), 10 * math.exp(0.1)))


def test_probability_to_fit_falls_with_the_prediction() -> None:
    found = leaning(np.random.default_rng(1).normal(0.0, 0.03, 400).tolist())
    shares = [found.below(value, 80.0) for value in (70.0, 78.0, 80.0, 82.0, 90.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.99 and shares[2] == pytest.approx(0.5, abs=0.03) and shares[-1] < 0.01
    wide = [found.below(value, 80.0, 0.15) for value in (70.0, 78.0, 80.0, 82.0, 90.0)]
    assert wide == sorted(wide, reverse=True) and 0.75 < wide[0] < 0.9 and wide[-1] > 0.1


SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.2-1B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 2048, "global_batch": 16, "framework": "torchtitan"},
    "plan": {"zero": 3},
}


def run(*settings: str) -> TrainingResult:
    return simulate_training(SCENARIO, overrides=settings, sensitivities=False)


def test_nothing_next_to_the_capacity_is_certain() -> None:
    result = run("cluster.memory_bytes=12GiB")
    room = result.memory.peak_reserved_bytes / 2**30
    full = run(f"cluster.memory_bytes={1.05 * room:.3f}GiB")
    assert full.memory_fits and 0.5 <= (full.memory.fit_probability or 0.0) < 0.8
    assert any("may run out of memory" in w or "device memory" in w for w in full.warnings)
    over = run(f"cluster.memory_bytes={1.003 * room:.3f}GiB")
    assert over.memory.peak_reserved_bytes < over.memory.capacity_bytes and not over.memory_fits
    assert "probably out of memory (" in fit_line(over) and "more likely than not" in over.warnings[0]


def test_the_asked_group_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = prepare(SCENARIO)
    own = memory_interval.signature(x.model, x.cluster)
    rows = [MemoryResidual("torchtitan", "d", "reserved", f"other{i}", "f", 0.01 * i) for i in range(8)]
    rows += [MemoryResidual("torchtitan", "d", "reserved", own, "f", 9.0)] * 3
    monkeypatch.setattr(memory_interval, "residuals", lambda: tuple(rows))
    found = comparable_residuals("torchtitan", "d", own, "reserved")
    assert len(found.errors) == 8 and found.grade == "fitted"
    assert len(comparable_residuals("torchtitan", "d", "another", "reserved").errors) == 11
    assert comparable_residuals("torchtitan", "e", own, "reserved").grade == "assumed"  # one set, another device
    rows += [MemoryResidual("ddp", f"e{i}", "reserved", "other", "f", 0.01) for i in range(3)]
    assert comparable_residuals("torchtitan", "e", own, "reserved").grade == "analytic"
    assert comparable_residuals("torchtune", "d", own, "reserved").grade == "analytic"
    assert comparable_residuals("jax", "d", own, "reserved").grade == "assumed"


def test_the_shipped_bands_cover_what_they_promise() -> None:
    """Four of five measured peaks, each with its own model and cluster left out, give or take a binomial draw."""
    for count, inside, width in memory_interval.coverage().values():
        assert count >= 25 and 0.68 <= inside <= 0.92 and width < 0.2


def test_a_result_carries_its_bands_and_gives_them_back() -> None:
    result = run()
    memory = result.memory
    assert memory.allocated_interval is not None and memory.reserved_interval is not None
    assert memory.allocated_interval.low < memory.peak_allocated_bytes < memory.allocated_interval.high * 1.2
    outside = memory.context_bytes + memory.communication_buffer_bytes
    assert memory.reserved_interval.low > outside
    assert memory.fit_probability is not None and memory.fit_probability > 0.99
    assert fit_line(result).startswith("fits (over 99 %)")
    again = result_from_dict(result_to_dict(result)).memory
    assert again.reserved_interval == memory.reserved_interval
    assert again.fit_probability == memory.fit_probability
    assert again.host_capacity_bytes == memory.host_capacity_bytes


def test_offloading_fills_host_memory() -> None:
    """All states of 1.24 billion parameters over eight devices: two moments of 4 bytes, and page-locked weights and
    gradients of 4 bytes, whose shards are rounded up to powers of two."""
    result = run("plan.offload={params: 1.0, optimizer: 1.0}")
    assert 1.2358e9 * 16 / 8 < result.memory.host_bytes < 1.2358e9 * (8 + 2 * 8) / 8
    optimizer_alone = run("plan.offload={optimizer: 1.0}")
    assert optimizer_alone.memory.host_bytes == pytest.approx(1.2358e9 * 8 / 8, rel=0.01)
    assert run().memory.host_bytes == 0.0


def test_too_little_host_memory_does_not_fit() -> None:
    settings = ("plan.offload={activations: 1.0}", "cluster.host_memory_bytes=1GiB")
    small, large = run(*settings), run(settings[0])
    assert large.memory_fits and not small.memory_fits
    assert small.memory.host_bytes == large.memory.host_bytes > 2**30 / 8
    assert small.memory.fit_probability == 0.0
    assert any("host memory" in w for w in small.warnings) and "host memory" in fit_line(small)
