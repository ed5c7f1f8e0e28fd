"""Power of serving: idle when idle, more with more work, never above the limit, joules that add up."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import windtunnel as wt
from windtunnel import catalog
from windtunnel.cost.clock import idle_w
from windtunnel.cost.serving import serving_coefficients
from windtunnel.cost.serving_power import Use, power_coefficients, watts
from windtunnel.errors import BadInput, ProblemList
from windtunnel.serving.iteration.instance_shape import shape_of
from windtunnel.serving.iteration.iteration_model import IterationModel, iteration_model
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.iteration.power_cap import PowerCap, with_power_cap
from windtunnel.serving.iteration.power_work import work_table
from windtunnel.serving.results.power import SUMS, PowerModel, phases, power_report
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.serving import ServingPlan, ServingPrecision

DEVICES = ("h100-sxm-80gb", "b200-sxm-180gb", "a100-sxm-80gb")


class Instance:
    """Llama-3.1-8B (or another) on one node."""

    def __init__(self, device: str = DEVICES[0], name: str = "meta-llama/Llama-3.1-8B", tp: int = 1, **cluster: Any):
        self.model = catalog.model(name)
        self.cluster = catalog.resolve_cluster(ClusterRef(device=device, nodes=1, devices_per_node=8, **cluster))
        problems = ProblemList()
        self.shape = shape_of(self.model, self.cluster, ServingPlan(tp=tp), ServingPrecision(), "plan", problems)
        c = serving_coefficients("vllm", "", self.cluster.device)
        self.layers = Layers(self.model, self.cluster, self.shape, c)
        self.iteration = iteration_model(self.layers, most_tokens=8192)
        self.work = work_table(self.layers, self.iteration)

    def totals(self, *, batch: float, steps: float = 1000.0, prompts: float = 0.0, chunk: float = 2048.0) -> Any:
        """Sums of a run that was never idle."""
        kv = batch * 1000.0
        window = batch * min(1000.0, self.iteration.window)
        decode = self.iteration.seconds(batch, kv=kv, window_kv=window, sequences=batch) if batch else 0.0
        both = self.iteration.seconds(
            chunk + batch, pairs=0.5 * chunk**2, prompt_tokens=chunk, kv=kv, window_kv=window, sequences=batch
        )
        values = {
            "busy_s": (steps - prompts) * decode + prompts * both,
            "iterations": steps,
            "prompt_iterations": prompts,
            "prompt_tokens": prompts * chunk,
            "prompt_pairs": prompts * 0.5 * chunk**2,
            "decode_tokens": batch * steps,
            "kv_tokens": kv * steps,
        }
        return {k: np.array([values[k]]) for k in SUMS}

    def power(self, totals: Any, duration_s: float | None = None, **more: Any) -> Any:
        """The report, over the busy time unless told."""
        seconds = float(totals["busy_s"][0]) if duration_s is None else duration_s
        own = PowerModel(
            model=self.model,
            cluster=self.cluster,
            shape=self.shape,
            iteration=self.iteration,
            work=self.work,
            clock=more.pop("clock", None),
        )
        return power_report(own, totals, seconds, **more)


@pytest.fixture(scope="module", params=DEVICES)
def instance(request: pytest.FixtureRequest) -> Instance:
    """One instance a device."""
    return Instance(request.param)


@pytest.mark.parametrize("device", DEVICES)
def test_watts_grow_with_every_use_and_stay_below_the_limit(device: str) -> None:
    part = catalog.device(device)
    c = power_coefficients(part)
    base = Use(0.3, 0.1, 0.05, 0.3 * part.memory_bytes_per_s)
    before = watts(part, c, base)
    for more in (
        replace(base, kernel=0.6),
        replace(base, attention=0.4),
        replace(base, matrix=0.2),
        replace(base, hbm_bytes_per_s=0.9 * part.memory_bytes_per_s),
    ):
        assert watts(part, c, more) > before
    full = Use(1.0, 1.0, 1.0, part.memory_bytes_per_s)
    assert 0.9 * part.tdp_w < watts(part, c, full) <= part.tdp_w
    assert watts(part, c, full, 300.0) <= 300.0
    assert watts(part, c, base) > idle_w(part)


def test_nothing_to_do_draws_idle_watts(instance: Instance) -> None:
    empty = {k: np.zeros(1) for k in SUMS}
    found = instance.power(empty, 100.0)
    assert found.mean_w_per_device == found.idle_w == idle_w(instance.cluster.device)
    assert found.energy_j == pytest.approx(100.0 * found.idle_w)
    assert found.prompt_w is None and found.decode_w is None
    assert found.energy_per_output_token_j is None and found.cost_per_million_output_tokens is None


def test_energy_is_the_integral_of_power(instance: Instance) -> None:
    totals = instance.totals(batch=32, prompts=100)
    busy = float(totals["busy_s"][0])
    found = instance.power(totals, 1.7 * busy)
    drawn = found.prompt_share * found.prompt_w + found.decode_share * found.decode_w + found.idle_share * found.idle_w
    assert found.prompt_share + found.decode_share == pytest.approx(1 / 1.7)
    assert found.energy_j == pytest.approx(drawn * 1.7 * busy)
    assert found.mean_w_per_device == pytest.approx(drawn)
    assert found.energy_per_output_token_j == pytest.approx(found.energy_j / 32000)
    assert found.energy_per_million_tokens_kwh == pytest.approx(found.energy_per_output_token_j / 3.6)


def test_mean_power_grows_with_the_load_and_a_token_gets_cheaper(instance: Instance) -> None:
    reports = [instance.power(instance.totals(batch=b)) for b in (1, 8, 32, 128, 512)]
    means = [r.mean_w_per_device for r in reports]
    assert means[-1] > means[0]
    # attention draws less than kernels over weights: where it takes over, the mean may dip, by its share alone
    assert all(later > 0.98 * before for before, later in pairwise(means))
    each = [r.energy_per_output_token_j for r in reports]
    assert each == sorted(each, reverse=True)
    totals = instance.totals(batch=32)
    busy = float(totals["busy_s"][0])
    less = [instance.power(totals, x * busy).mean_w_per_device for x in (1.0, 2.0, 10.0)]
    assert less == sorted(less, reverse=True)
    assert less[-1] > idle_w(instance.cluster.device)


def test_prompts_draw_more_than_decode_steps(instance: Instance) -> None:
    found = instance.power(instance.totals(batch=16, prompts=200))
    assert found.decode_w < found.prompt_w <= found.limit_w


def test_phases_keep_the_seconds_of_the_loop(instance: Instance) -> None:
    totals = instance.totals(batch=48, prompts=150)
    for mixed in (True, False):
        prompt, decode = phases(totals, instance.iteration, mixed=mixed)
        spent = prompt.iterations * prompt.seconds + decode.iterations * decode.seconds
        assert spent == pytest.approx(float(totals["busy_s"][0]))


def test_several_instances_add_up() -> None:
    one = Instance(tp=2)
    totals = one.totals(batch=16, prompts=50)
    twice = {k: np.repeat(v, 2) for k, v in totals.items()}
    single, both = one.power(totals), one.power(twice, float(totals["busy_s"][0]))
    assert (single.num_devices, both.num_devices) == (2, 4)
    assert both.energy_j == pytest.approx(2 * single.energy_j)
    assert both.mean_w_per_device == pytest.approx(single.mean_w_per_device)
    assert both.cost_per_million_output_tokens == pytest.approx(single.cost_per_million_output_tokens)


def test_money_is_device_hours() -> None:
    dear = Instance(tp=4, price_per_device_hour=3.0)
    totals = dear.totals(batch=64)
    found = dear.power(totals, 3600.0, output_tokens=2e6)
    assert found.cost_per_million_output_tokens == pytest.approx(6.0)
    assert found.grades["cost_per_million_output_tokens"] == "analytic"


def test_grades_and_band() -> None:
    fitted, guessed = Instance(), Instance("a100-sxm-80gb")
    a, b = (x.power(x.totals(batch=8), time_grade="fitted") for x in (fitted, guessed))
    assert a.grades["energy_j"] == "fitted"
    assert b.grades["energy_j"] == "assumed"
    for r in (a, b):
        assert r.interval["low"] < r.mean_w_per_device < r.interval["high"] <= r.limit_w


def _under(cap_w: float | None, **where: Any) -> tuple[Instance, PowerCap]:
    one = Instance(power_cap_w=cap_w, **where)
    return one, with_power_cap(one.layers.under(one.iteration.coefficients), most_tokens=8192)


def _prompt_s(model: IterationModel, tokens: float) -> float:
    return model.seconds(tokens, pairs=0.5 * tokens**2, prompt_tokens=tokens)


def test_a_cap_slows_prompts_and_not_decode_steps() -> None:
    before = Instance(name="meta-llama/Llama-2-70b-hf", tp=8).iteration
    last = 0.0
    for cap in (700.0, 500.0, 400.0, 350.0):
        _, found = _under(cap, name="meta-llama/Llama-2-70b-hf", tp=8)
        ratio = _prompt_s(found.iteration, 1024.0) / _prompt_s(before, 1024.0)
        assert ratio >= max(last, 1.0)
        last = ratio
        for batch in (1.0, 32.0):
            steps = (m.seconds(batch, kv=1000 * batch, sequences=batch) for m in (found.iteration, before))
            assert next(steps) == pytest.approx(next(steps), rel=0.02)
        linear = found.iteration.linear
        np.testing.assert_allclose(np.sum(list(linear.parts.values()), axis=0), linear.seconds, rtol=1e-9)
        assert found.within and (found.clocks <= 1.0).all()
    # The only public figures for a cap of half the board's power state 1.30 for prompts of 128 to 4,096 tokens.
    assert 1.2 < last < 1.5


@pytest.mark.parametrize("cap", [None, 700.0])
def test_a_cap_that_does_not_bind_changes_nothing(cap: float | None) -> None:
    one, found = _under(cap)
    np.testing.assert_array_equal(found.iteration.linear.seconds, one.iteration.linear.seconds)
    assert found.iteration.prefill_pair_s == one.iteration.prefill_pair_s
    assert (found.clocks == 1.0).all()


def test_watts_stay_below_the_cap() -> None:
    one, found = _under(450.0)
    one.iteration, one.work = found.iteration, found.work
    totals = one.totals(batch=64, prompts=300)
    report = one.power(totals, clock=found.clock)
    assert report.limit_w == 450.0
    assert 0.9 * 450.0 < report.prompt_w <= 450.0
    assert report.decode_w <= 450.0
    free = Instance()
    assert report.energy_per_output_token_j < free.power(free.totals(batch=64, prompts=300)).energy_per_output_token_j


def test_a_cap_below_what_the_least_clock_draws_is_said() -> None:
    _, found = _under(150.0)
    assert not found.within


def test_a_device_without_a_board_power_has_no_watts() -> None:
    one = Instance()
    one.cluster = one.cluster.model_copy(
        update={"device": one.cluster.device.model_copy(update={"tdp_w": None, "idle_w": None})}
    )
    found = one.power(one.totals(batch=8, prompts=10))
    assert found.mean_w_per_device is None and found.energy_per_output_token_j is None and found.interval is None
    assert found.cost_per_million_output_tokens > 0.0
    assert found.prompt_share + found.decode_share == pytest.approx(1.0)


def test_a_locked_clock_slows_prompts_and_saves_watts_of_decode_steps() -> None:
    base: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
        "serving": {
            "engine": "vllm",
            "traffic": {
                "offline": True,
                "num_requests": 32,
                "input_tokens": 4096,
                "output_tokens": 256,
            },
        },
    }
    runs = [
        wt.simulate_serving({**base, "cluster": base["cluster"] | ({"clock_share": f} if f < 1.0 else {})})
        for f in (1.0, 0.7, 0.4)
    ]
    for faster, slower in pairwise(runs):
        assert slower.duration_s > faster.duration_s
        assert slower.power["decode_w"] < faster.power["decode_w"]
        assert slower.power["energy_j"] < faster.power["energy_j"]
    assert runs[1].duration_s < runs[0].duration_s / 0.7
    with pytest.raises(BadInput, match="clock_share"):
        wt.simulate_training(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "cluster": {"device": "h100-sxm-80gb", "clock_share": 0.7},
                "training": {"seq_len": 4096, "global_batch": 8},
            }
        )
