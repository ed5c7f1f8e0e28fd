"""Techniques on serving: iterations whose launches run side by side, and settings that are switched on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import windtunnel as wt
from windtunnel.cost.serving_power import Use, held_clock, power_coefficients
from windtunnel.errors import BadInput
from windtunnel.program.segment import COMM
from windtunnel.serving.event_loop import reference
from windtunnel.serving.iteration.co_scheduled_layers import View, memory_rate, overlap_savings_s
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.iteration.overlap_savings import RATIOS
from windtunnel.serving.results.time_breakdown import iteration_parts
from windtunnel.serving.simulate import Deployment, prepare, with_traffic
from windtunnel.techniques import REGISTRY, applied
from windtunnel.techniques.base import Knob, Paper, ServingPart, Technique
from windtunnel.techniques.limits import merged, with_technique
from windtunnel.techniques.serving import ServingBatch, side_by_side, with_pools

PAPER = Paper("t", 2020, "https://example.org")
SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
    "plan": {"tp": 4},
    "serving": {
        "engine": "vllm",
        "engine_version": "0.10.0",
        "traffic": {
            "rate_per_s": 6,
            "num_requests": 120,
            "input_tokens": {"distribution": "lognormal", "mean": 900},
            "output_tokens": {"distribution": "lognormal", "mean": 150},
        },
    },
}


@pytest.fixture
def add() -> Iterator[Any]:
    """Adds techniques for one test."""
    added: list[str] = []

    def one(id: str, part: ServingPart, **fields: Any) -> None:
        made = Technique(
            id=id,
            family="test",
            summary="",
            paper=PAPER,
            levels=("pair",),
            serving=part,
            edits=(("pair", "iteration"),),
            **fields,
        )
        REGISTRY.add(id, made)
        added.append(id)

    yield one
    for id in added:
        REGISTRY._entries.pop(id)


def layers_of(d: Deployment) -> Layers:
    return Layers(d.model, d.cluster, d.instance.shape, d.iteration.coefficients, d.serving.expert_skew)


def whole(layers: Any, _: Any) -> Any:
    return side_by_side([layers.launches(layers.batch)], layers.count)


def test_launches_in_a_row_save_nothing(add: Any) -> None:
    add("in-a-row", ServingPart(layers=whole))
    d = prepare({**SCENARIO, "techniques": ["in-a-row"]})
    assert d.iteration.overlap is not None
    knots = [(k, i, j) for k in range(0, len(d.iteration.overlap.tokens), 4) for i in (0, 3) for j in (0, 3, 10)]
    d.iteration.overlap.fill(knots)
    np.testing.assert_allclose([d.iteration.overlap.share[k] for k in knots], 0.0, atol=1e-9)
    plain = wt.simulate_serving(SCENARIO)
    same = wt.simulate_serving({**SCENARIO, "techniques": ["in-a-row"]})
    assert same.e2e_s.mean == pytest.approx(plain.e2e_s.mean, rel=1e-9)
    assert same.techniques == ("in-a-row",) and same.citations == (PAPER.line(),)


@pytest.mark.parametrize(
    ("model", "weights"),
    [
        ("meta-llama/Llama-3.1-70B", "bf16"),
        ("google/gemma-3-27b-pt", "bf16"),
        ("Qwen/Qwen3-30B-A3B", "fp8_block"),
        ("deepseek-ai/DeepSeek-V2-Lite", "fp8_block"),
        ("meta-llama/Llama-3.1-8B", "fp8"),
    ],
)
def test_launches_of_layers_take_what_the_iteration_model_counts(model: str, weights: str) -> None:
    d = prepare(merged(SCENARIO, {"model": model, "serving": {"precision": {"weights": weights}}}))
    layers, c = layers_of(d), d.iteration.coefficients
    gap = c.layer_s / 11
    for n in (7.0, 900.0):
        seconds = 0.0
        for kind in d.model.layer_kinds():
            seconds += sum(
                x.alone_s
                for x in View(layers=layers, kind=kind, count=1, batch=ServingBatch(n), gap_s=gap).launches(
                    ServingBatch(n)
                )
            )
        linear_s = float(np.interp(n, d.iteration.linear.tokens, d.iteration.linear.seconds))
        expected = linear_s + layers.depth() * c.layer_s
        assert seconds == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize(("search", "most"), [(False, 0.08), pytest.param(True, 0.13, marks=pytest.mark.slow)])
def test_the_surface_is_near_the_engine(search: bool, most: float) -> None:
    d = prepare(with_technique(SCENARIO, "nanoflow", {"search": search}))
    overlap, chosen = d.iteration.overlap, applied([{"nanoflow": {"search": search}}])
    assert overlap is not None
    rng = np.random.default_rng(3)
    tokens = np.concatenate([rng.integers(1, 255, 12), rng.integers(256, 8192, 100)]).astype(float)
    linear = np.interp(tokens, d.iteration.linear.tokens, d.iteration.linear.seconds)
    uses = zip(tokens, linear, rng.random(112), rng.random(112) * 2, strict=True)
    points = [(n, s * u, s * v) for n, s, u, v in uses]
    saved, extra = overlap_savings_s(layers_of(d), d.iteration, chosen, points, cuda_graphs=True)
    row = np.array([s + x + y + d.iteration.base_s for (_, x, y), s in zip(points, linear, strict=True)])
    found = row - [overlap.saved(*p) for p in points]
    error = np.abs(found / np.maximum(row - saved, d.iteration.base_s + extra) - 1.0)
    assert error.mean() < 0.01 and error[12:].mean() < 0.012 and error.max() < most


@pytest.mark.parametrize("parts", [2, 4])
def test_never_faster_than_sms_memory_and_collectives_allow(parts: int) -> None:
    d = prepare(with_technique(SCENARIO, "nanoflow", {"nano_batches": parts, "search": False, "threshold": 1}))
    overlap, layers = d.iteration.overlap, layers_of(d)
    assert overlap is not None
    c, depth = d.iteration.coefficients, len(d.model.layer_kinds())
    pairs = (0, 0), (0, 4), (3, 3), (0, 7), (7, 0)
    overlap.fill((i, j, k) for i in range(len(overlap.tokens)) for j, k in pairs)
    for i, n in enumerate(overlap.tokens):
        for j, k in pairs:
            s = overlap.linear_s[i]
            batch = ServingBatch(float(n), RATIOS[j] * s / depth, RATIOS[k] * s / depth)
            row = View(
                layers=layers, kind=d.model.layer_kinds()[0], count=1, batch=batch, gap_s=c.layer_s / 11
            ).launches(batch)
            layers_s = depth * sum(x.alone_s for x in row) - overlap.share[i, j, k] * s
            floors = (
                sum(x.sm * x.alone_s for x in row),
                sum(x.hbm_bytes for x in row) / memory_rate(layers),
                sum(x.alone_s for x in row if x.stream == COMM),
            )
            assert layers_s >= depth * max(floors) * (1 - 1e-9)


@pytest.mark.parametrize("rate", [2, 12])
def test_jumps_over_decode_steps_change_nothing(rate: int) -> None:
    loaded = {"serving": {"traffic": {"rate_per_s": rate}}}
    scenario = merged(with_technique(SCENARIO, "nanoflow", {"threshold": 8}), loaded)
    d, _ = with_traffic(prepare(scenario))
    outs = []
    for jumps in (True, False):
        requests = with_traffic(d)[1].requests
        reference.serve(
            requests,
            d.iteration.tables(d.limits.budget + d.limits.max_seqs),
            replace(d.limits, caching=False),
            1,
            jumps=jumps,
            overlap=d.iteration.overlap,
        )
        outs.append(requests.finish_s)
    np.testing.assert_allclose(outs[0], outs[1], rtol=1e-9)


def test_a_setting_is_switched_on_and_shown(add: Any) -> None:
    def settings(serving: Any, knobs: dict[str, Any]) -> Any:
        return with_pools(serving, lambda pool: {"policy": knobs["policy"]})

    add("switch", ServingPart(settings=settings), knobs={"policy": Knob("orca", choices=("orca", "static"))})
    plain, orca = (wt.simulate_serving({**SCENARIO, "techniques": t}) for t in ((), ("switch",)))
    assert (plain.limits["policy"], orca.limits["policy"]) == ("vllm_v1", "orca")
    stated = {"serving": {"pools": [{"policy": "orca", "plan": {"tp": 4}}]}}
    assert orca.e2e_s.mean == wt.simulate_serving(merged(SCENARIO, stated)).e2e_s.mean


def test_what_acts_on_training_alone_says_so_and_two_weaves_conflict(add: Any) -> None:
    add("other-weave", ServingPart(layers=whole))
    result = wt.simulate_serving({**SCENARIO, "techniques": ["zb-h1"]})
    assert any("zb-h1 does not apply here: it acts on training alone" in line for line in result.warnings)
    with pytest.raises(BadInput, match="conflicts with nanoflow"):
        wt.simulate_serving({**SCENARIO, "techniques": ["nanoflow", "other-weave"]})


def test_parts_of_an_iteration_sum_to_its_seconds() -> None:
    model = prepare(with_technique(SCENARIO, "nanoflow")).iteration
    batch = {"tokens": 700.0, "pairs": 4e5, "prompt_tokens": 500.0, "kv": 2e5, "sequences": 201.0}
    assert sum(iteration_parts(model, **batch).values()) == pytest.approx(model.seconds(**batch), rel=1e-12)
    assert model.seconds(**batch) != replace(model, overlap=None).seconds(**batch)


def test_the_example_of_the_manual_runs(add: Any) -> None:
    text = (Path(__file__).parents[3] / "docs/techniques/overview.md").read_text("utf-8")
    block = next(b for b in text.split("```python")[1:] if "ServingPart(" in b).split("```")[0]
    space: dict[str, Any] = {}
    exec(block, space)
    technique = space["TECHNIQUE"]
    REGISTRY.add(technique.id, technique)
    try:
        limits = technique.limit_cases
        both = limits.scenario, with_technique(limits.scenario, technique.id)
        before, after = (wt.simulate_serving(s) for s in both)
        assert limits.gain(before, after) > 0.01
    finally:
        REGISTRY._entries.pop(technique.id)


def test_attention_devices_hold_the_cache_and_are_set_by_their_technique_alone() -> None:
    base = merged(SCENARIO, {"cluster": {"devices_per_node": 4}})
    plain, two, four = (
        prepare(s).instance.capacity.tokens
        for s in (base, with_technique(base, "lamina"), with_technique(base, "lamina", {"count": 4}))
    )
    assert four == pytest.approx(2 * two, rel=1e-3) and two > plain
    token = 2 * 8 * 128 * 80 * 2
    assert two * token == pytest.approx(2 * 0.9 * 96 * 2**30, rel=0.02)
    pool = {"device": "h20-sxm-96gb", "nic_bytes_per_s": "50 GB/s"}
    with pytest.raises(BadInput, match="is set by the techniques lamina"):
        prepare(merged(base, {"serving": {"pools": [{"plan": {"tp": 4}, "attention_pool": pool}]}}))
    with pytest.raises(BadInput, match="h20"):
        prepare(with_technique(base, "lamina", {"device": "h20-sxm-69gb"}))


def test_a_slow_network_is_what_offloaded_attention_waits_for() -> None:
    def step(**knobs: float) -> float:
        model = prepare(with_technique(SCENARIO, "lamina", knobs)).iteration
        return model.seconds(64, kv=64 * 4000, sequences=64)

    assert step(latency_us=1000.0) > step() + 80 * 2 * 900e-6
    assert step(nic_gbit=10.0) > step() > step(nic_gbit=10000.0, latency_us=0.0)


def test_parts_of_products_lose_what_their_tiles_and_waves_leave_empty() -> None:
    d = prepare(SCENARIO)
    kind = d.model.layer_kinds()[0]

    def products(tokens: float, whole: float) -> float:
        view = View(layers=layers_of(d), kind=kind, count=1, batch=ServingBatch(whole), gap_s=0.0)
        return sum(x.alone_s for x in view.launches(ServingBatch(tokens)) if x.tag == "gemm")

    for whole in (512.0, 4096.0, 16384.0):
        assert 2.0 * products(whole / 2, whole) >= 2.0 * products(whole / 2, whole / 2) * (1 - 1e-12)
        assert 8.0 * products(whole / 8, whole) > products(whole, whole)
    lost = [2.0 * products(n / 2, n) / (2.0 * products(n / 2, n / 2)) for n in (2048.0, 65536.0)]
    assert lost[0] > lost[1] >= 1.0 - 1e-12  # many waves lose little


def test_bands_of_a_technique_say_that_no_rows_measured_it() -> None:
    plain, woven = (wt.simulate_serving(s) for s in (SCENARIO, with_technique(SCENARIO, "nanoflow")))
    assert plain.intervals["tpot_s"]["grade"] == "fitted" and woven.intervals["tpot_s"]["grade"] == "analytic"
    assert "no rows of nanoflow" in woven.intervals["tpot_s"]["basis"]
    split = wt.simulate_serving(with_technique(SCENARIO, "semi-pd"))
    assert any("reference loop" in row["why"] for row in split.assumed if row["field"].endswith("sm_split"))


ROWS = {2048: {2: 402.9, 4: 240.9, 8: 155.3, 16: 137.3}, 16384: {2: 3126.8, 4: 1801.9, 8: 1103.0, 16: 1005.1}}
"""Microseconds of the fused all-reduce and norm by rows of 8,192 and blocks, eight H100 (artifact, figure 4)."""


@pytest.mark.parametrize("tokens", ROWS)
def test_a_fused_reduction_on_few_sms_takes_what_was_measured(tokens: int) -> None:
    wide = merged(SCENARIO, {"cluster": {"devices_per_node": 8}, "plan": {"tp": 8}})
    view = View(layers=layers_of(prepare(wide)), kind="D", count=1, batch=ServingBatch(tokens), gap_s=0.0)
    edit = REGISTRY.get("tokenweave").serving.launches
    for sms, measured_us in ROWS[tokens].items():
        out = edit(view.launches(view.batch), view.batch, view, {"comm_sms": sms, "mlp_sms": 0})
        fused = next(x for x in out if x.name.startswith("tp_reduce_proj"))
        assert fused.alone_s * 1e6 == pytest.approx(measured_us, rel=0.12)
        assert fused.sm == pytest.approx(sms / 132)


def test_sums_in_the_switch_take_what_was_measured_and_need_one() -> None:
    asked = {"plan": {"tp": 8, "all_reduce": "in_switch"}}
    wide = merged(SCENARIO, {"cluster": {"devices_per_node": 8}, "plan": {"tp": 8}, "serving": {"pools": [asked]}})
    layers = layers_of(prepare(wide))
    for tokens, measured_us in {256: 28.5, 2048: 136.2, 32768: 1956.9}.items():
        assert float(layers._all_reduce(np.array(float(tokens)))) * 1e6 == pytest.approx(measured_us, rel=0.05)
    with pytest.raises(BadInput, match="all_reduce"):
        prepare(merged(wide, {"cluster": {"device": "a100-sxm-80gb"}}))


def test_what_an_element_wise_kernel_takes_beyond_its_bytes_is_not_hidden() -> None:
    view = View(layers=layers_of(prepare(SCENARIO)), kind="D", count=1, batch=ServingBatch(8192), gap_s=0.0)
    row = {x.name: x for x in view.launches(view.batch)}
    norm, beyond = row["mlp_norm"], row["mlp_norm_beyond"]
    one = view.layers.segments(np.array([8192]))[0].launches
    assert norm.alone_s + beyond.alone_s == pytest.approx(next(x.alone_s for x in one if x.name == "mlp_norm"))
    assert norm.alone_s >= norm.hbm_bytes / view.cluster.device.memory_bytes_per_s
    assert beyond.sm == 1.0 and not beyond.hbm_bytes


def test_a_fuller_device_runs_at_a_lower_clock() -> None:
    device = prepare(SCENARIO).cluster.device
    shares = power_coefficients(device)
    clocks = [held_clock(device, shares, Use(k, 0.0, 0.7 * k, 1e12 * k)) for k in (0.0, 0.5, 0.8, 1.0)]
    assert clocks == sorted(clocks, reverse=True) and clocks[0] > 0.995 and 0.8 < clocks[-1] < 0.97
    assert held_clock(device.model_copy(update={"tdp_w": None}), shares, Use(1.0, 0.0, 0.7, 1e12)) == 1.0


@pytest.mark.parametrize("point", [(2048.0, 0.002, 0.06), (600.0, 0.0, 0.03)])
def test_searched_parts_are_no_slower_than_equal_ones(point: tuple[float, float, float]) -> None:
    d = prepare(SCENARIO)
    layers, saved = layers_of(d), []
    for knobs in ({}, *({"search": False, "nano_batches": parts} for parts in (2, 3, 4))):
        chosen = applied([{"nanoflow": knobs}])
        saved.append(float(overlap_savings_s(layers, d.iteration, chosen, [point], cuda_graphs=True)[0][0]))
    assert saved[0] >= 0.9 * max(saved[1:])  # compared at one clock; what a fuller device loses comes after
    assert saved[0] > 0.0


def test_collectives_on_few_sms_take_what_was_profiled() -> None:
    from windtunnel.techniques.published.nanoflow import _sums_s

    wide = {"cluster": {"device": "a100-sxm-80gb", "devices_per_node": 8}, "plan": {"tp": 8}}
    view = View(
        layers=layers_of(prepare(merged(SCENARIO, wide))), kind="D", count=1, batch=ServingBatch(2048.0), gap_s=0.0
    )
    measured_us = {8: 319.1 + 220.7, 16: 2 * 184.9, 32: 2 * 162.5}  # gathers on 16 and 32 SMs: as reductions
    for sms, microseconds in measured_us.items():
        assert _sums_s(view, 2048.0, sms) * 1e6 == pytest.approx(microseconds, rel=0.12)


def test_a_host_that_works_ahead_is_hidden_behind_the_device_only() -> None:
    ahead = {"serving": {"pools": [{"plan": {"tp": 4}, "limits": {"host_ahead": True}}]}}
    plain, hidden = prepare(SCENARIO).iteration, prepare(merged(SCENARIO, ahead)).iteration
    assert 0.0 < plain.base_s - hidden.base_s <= plain.coefficients.host_s + 1e-12
    assert hidden.per_sequence_s < plain.per_sequence_s
    assert hidden.prefill_floor_s == plain.prefill_floor_s
    tiny = {"model": "Qwen/Qwen2.5-0.5B", "cluster": {"devices_per_node": 1}, "plan": {"tp": 1}}
    alone = merged(merged(SCENARIO, tiny), {"serving": {"pools": [{"limits": {"host_ahead": True}}]}})
    left = prepare(alone).iteration
    assert left.base_s + left.linear.seconds[0] >= plain.coefficients.host_s * (1.0 - 1e-9)
