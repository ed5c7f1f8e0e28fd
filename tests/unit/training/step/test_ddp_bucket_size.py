"""`plan.ddp_bucket_size`: gradients are reduced in buckets of so many parameters; absent, a chunk has at most eight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel.exporters.launch import export
from windtunnel.importers import formats
from windtunnel.importers.launch import Wanted
from windtunnel.training.predict import prepare, simulate_training
from windtunnel.training.step_setup import options_of

SIZE = 50_000_000
FILES = {"megatron": "megatron.sh", "megatron_bridge": "plan_overrides.py"}


def scenario(**plan: Any) -> dict[str, Any]:
    cluster = {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
    training = {"seq_len": 2048, "global_batch": 16}
    return {"model": "meta-llama/Llama-3.2-1B", "cluster": cluster, "training": training, "plan": plan}


def bucket_bytes(**plan: Any) -> float | None:
    x, _ = prepare(scenario(**plan))
    return options_of(x.training, x.plan, x.behaviour, x.coefficients, ()).bucket_bytes


def test_a_bucket_has_the_bytes_of_its_gradients() -> None:
    assert bucket_bytes() is None
    assert bucket_bytes(ddp_bucket_size=SIZE) == SIZE * 4.0  # Megatron reduces in fp32


def test_smaller_buckets_pay_more_latency_and_one_bucket_hides_nothing() -> None:
    step = {n: simulate_training(scenario(ddp_bucket_size=n), sensitivities=False) for n in (10**6, 10**8, 10**9)}
    usual = simulate_training(scenario(), sensitivities=False)
    assert "ddp_bucket_size" not in usual.plan
    assert step[10**8].plan["ddp_bucket_size"] == 10**8
    times = [step[n].step_time_s for n in (10**6, 10**8, 10**9)]
    assert min(times) == times[1]
    assert np.isfinite(times).all() and len(set(times)) == 3


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"zero": 3}, "layer by layer"),
        ({"tp": 16}, "one replica"),
        ({"zero": 0, "overlap": {"grad_reduce": False}}, "in one piece"),
        ({"zero": 0, "local_steps": {"steps": 4}}, "average their weights"),
    ],
    ids=["zero 3", "one replica", "no overlap", "local steps"],
)
def test_where_no_buckets_travel_it_does_nothing_and_that_is_said(plan: dict[str, Any], why: str) -> None:
    usual = simulate_training(scenario(**plan), sensitivities=False)
    result = simulate_training(scenario(**plan, ddp_bucket_size=10**6), sensitivities=False)
    assert any(w.startswith("plan.ddp_bucket_size has no effect") and why in w for w in result.warnings)
    assert result.step_time_s == pytest.approx(usual.step_time_s, rel=1e-12)


@pytest.mark.parametrize("framework", ["ddp", "megatron_core"])
@pytest.mark.parametrize("zero", [0, 1, 2])
def test_it_acts_or_its_silence_is_explained(framework: str, zero: int) -> None:
    """Gathers alone in buckets need an optimizer that the framework shards: DDP's ZeRO 2 has none."""
    steps = []
    for size in (None, 10**6):
        given = scenario(zero=zero, overlap={"grad_reduce": False, "param_gather": True}, ddp_bucket_size=size)
        given["training"]["framework"] = framework
        steps.append(simulate_training(given, sensitivities=False))
    acts = framework == "megatron_core" and zero > 0
    assert (steps[1].step_time_s > steps[0].step_time_s) == acts
    assert any("plan.ddp_bucket_size has no effect" in w for w in steps[1].warnings) == (not acts)


@pytest.mark.parametrize("target", FILES)
def test_launch_files_state_it_and_imports_read_it(target: str, tmp_path: Path) -> None:
    export(scenario(ddp_bucket_size=SIZE), target, None, tmp_path)
    text = (tmp_path / FILES[target]).read_text("utf-8")
    assert str(SIZE) in text
    launch = formats.read(target, text, FILES[target], Wanted(device="h100-sxm-80gb", nodes=2))
    assert launch.scenario()["plan"]["ddp_bucket_size"] == SIZE


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_deepspeeds_buckets_come_back_and_take_memory(zero: int, tmp_path: Path) -> None:
    given = scenario(ddp_bucket_size=SIZE, zero=zero)
    given["training"]["framework"] = "deepspeed"
    export(given, "deepspeed", None, tmp_path)
    text = (tmp_path / "ds_config.json").read_text("utf-8")
    wanted = Wanted(device="h100-sxm-80gb", nodes=2, model=given["model"], seq_len=2048)
    assert formats.read("deepspeed", text, "ds_config.json", wanted).scenario()["plan"]["ddp_bucket_size"] == SIZE
    result = simulate_training(given, sensitivities=False)
    copies = 2 if zero < 3 and prepare(given)[0].plan.overlap_grad_reduce else 1
    assert result.memory.at_peak["reduce buckets"] == pytest.approx(copies * 2 * SIZE)
    assert not any("ddp_bucket_size" in warning for warning in result.warnings)


@pytest.mark.parametrize(("target", "zero"), [("torchtitan", 1), ("deepspeed", 0)])
def test_a_target_without_the_option_says_so(target: str, zero: int, tmp_path: Path) -> None:
    done = export(scenario(ddp_bucket_size=SIZE, zero=zero), target, None, tmp_path)
    assert any(f"ddp_bucket_size {SIZE}" in note for note in done.unsupported)
