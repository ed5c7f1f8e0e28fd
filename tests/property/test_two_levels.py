"""Two levels, one physics: a step of reduced segments against the same step with every operator inlined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inlined_step import expand, expanded_step, expanded_timeline
from makespan_bound import bound

from windtunnel.training.predict import prepare
from windtunnel.training.simulate_step import step_time
from windtunnel.training.step_setup import PreparedStep
from windtunnel.training.task_builder import RATES, T_B, T_F, T_REDUCE, T_W

pytestmark = pytest.mark.property

EXAMPLES = Path(__file__).parents[2] / "examples"
NO_HOST = {"host_kernel_s": 0.0, "moe_sync_s": 0.0, "operator_host_s": 0.0}
"""Host time is added to whole segments; it has no operators to inline."""
TOLERANCE = 0.01
LLAMA_8B, LLAMA_70B = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B"


def _scenario(
    nodes: int,
    batch: int,
    *,
    model: str = LLAMA_8B,
    framework: str = "megatron_core",
    seq_len: int = 8192,
    device: str = "h100-sxm-80gb",
    techniques: tuple[str, ...] = (),
    **plan: Any,
) -> dict[str, Any]:
    return {
        "model": model,
        "cluster": {"device": device, "nodes": nodes, "devices_per_node": 8},
        "training": {"seq_len": seq_len, "global_batch": batch, "precision": "bf16", "framework": framework},
        "plan": {"mbs": 1, **plan},
        "techniques": list(techniques),
    }


GOLDENS = {
    "llama3-70b-64xh100": ["training.global_batch=16"],
    "llama3-8b-8xh100-fsdp": [],
    "qwen3-30b-a3b-16xh100-moe": ["training.global_batch=32"],
    "gpt3-175b-384xa100-selene": ["training.global_batch=64"],
    "does-not-fit-70b-8xh100": [],
    "llama3-405b-16384xh100": [],
}
CASES = {
    "tp8 pp2 zero1": _scenario(8, 16, model=LLAMA_70B, tp=8, pp=2, zero=1),
    "tp2 pp4 interleaved": _scenario(8, 64, model=LLAMA_70B, tp=2, pp=4, vpp=4, zero=1),
    "pipeline inside a node": _scenario(1, 16, tp=2, pp=4, zero=1),
    "split backward": _scenario(2, 32, tp=2, pp=4, zero=1, schedule="zb_h1"),
    "some layers recompute": _scenario(2, 32, tp=2, pp=2, zero=1, recompute={"policy": "full", "num_layers": 5}),
    "heads over context ranks": _scenario(2, 8, seq_len=32768, cp=4, cp_kind="all_to_all", zero=1),
    "ring over context ranks": _scenario(2, 8, seq_len=32768, cp=4, zero=1),
    "fsdp under a pipeline": _scenario(2, 16, framework="torchtitan", tp=2, pp=2, zero=3),
    "ddp buckets": _scenario(2, 16, framework="ddp", seq_len=2048, zero=0, techniques=("pytorch-ddp",)),
    "tp overlap": _scenario(8, 16, model=LLAMA_70B, tp=8, pp=2, zero=1, techniques=("tp-overlap",)),
    "mixture": _scenario(4, 32, model="mistralai/Mixtral-8x7B-v0.1", seq_len=4096, tp=2, ep=8, zero=1),
    "fsdp with tp8": _scenario(
        8, 16, model=LLAMA_70B, framework="torchtitan", tp=8, zero=3, recompute={"policy": "none"}
    ),
    "small mixture": _scenario(2, 32, model="Qwen/Qwen3-30B-A3B", seq_len=4096, ep=8, zero=1),
    "predicted token": _scenario(8, 32, model="deepseek-ai/DeepSeek-V3", seq_len=4096, pp=4, ep=16, zero=1),
}


def _prepare(source: Any, overrides: list[str] | None = None) -> PreparedStep:
    return prepare(source, overrides=overrides or [], coefficient_overrides=NO_HOST)[0]


@pytest.mark.parametrize("name", GOLDENS)
def test_examples(name: str) -> None:
    prepared = _prepare(EXAMPLES / f"{name}.yaml", GOLDENS[name])
    assert step_time(prepared) == pytest.approx(expanded_step(prepared), rel=TOLERANCE)


@pytest.mark.parametrize("name", CASES)
def test_plans(name: str) -> None:
    prepared = _prepare(CASES[name])
    assert step_time(prepared) == pytest.approx(expanded_step(prepared), rel=TOLERANCE)


@pytest.mark.parametrize("name", ["tp2 pp4 interleaved", "split backward", "some layers recompute", "mixture"])
def test_the_same_work_is_inlined(name: str) -> None:
    """Every instruction's launches add up to what its reduced tasks stand for, so the comparison is not vacuous."""
    prepared = _prepare(CASES[name])
    inlined, work, table = expand(prepared), prepared.stages.work, prepared.schedule
    launches = np.isin(inlined.tasks.tag, (T_F, T_B, T_W))
    assert launches.sum() > 5 * np.isin(prepared.program.tasks.tag, (T_F, T_B, T_W)).sum()
    owner = np.repeat(np.arange(len(inlined.tasks)), np.diff(inlined.tasks.rate_ptr))
    for rate, expected in ((1, work.hbm_bytes), (2, work.scale_up_bytes), (3, work.scale_out_bytes)):
        mine = launches[owner] & (inlined.tasks.rate_idx % len(RATES) == rate)
        total = expected[table.kind, prepared.program.virtual_stage].sum()
        assert inlined.tasks.rate_work[mine].sum() == pytest.approx(total, rel=0.02)  # no kernel exceeds a rate


def test_inlined_step_keeps_its_bound() -> None:
    prepared = _prepare(CASES["tp8 pp2 zero1"])
    program, timeline = expanded_timeline(prepared)
    assert bound(program.tasks, program.streams, program.resources) <= timeline.makespan_s * (1 + 1e-12)


def test_alone_both_levels_are_equal() -> None:
    """Without data-parallel traffic nothing runs beside a segment: the two levels differ by rounding alone."""
    prepared = _prepare(_scenario(4, 16, model=LLAMA_70B, tp=8, pp=4, vpp=5, zero=0))
    assert step_time(prepared) == pytest.approx(expanded_step(prepared), rel=1e-9)


def test_too_many_launches_are_refused() -> None:
    prepared = _prepare(EXAMPLES / "llama3-405b-16384xh100.yaml", ["plan.dp=auto", "training.global_batch=131072"])
    with pytest.raises(ValueError, match="too many to inline"):
        expand(prepared)


def test_buckets_keep_their_size_in_steps_of_layers() -> None:
    """How finely a step is simulated does not change what data-parallel traffic it has."""
    source = _scenario(2, 16, framework="ddp", seq_len=2048, zero=0)
    counts = []
    for megabytes in (2000, 8000, 40000):
        prepared = _prepare(source | {"techniques": [{"pytorch-ddp": {"bucket_mb": megabytes}}]})
        counts.append(int(np.sum(prepared.program.tasks.tag == T_REDUCE)))
    assert counts == [17, 5, 1]  # 8.03 billion parameters, four bytes a gradient
