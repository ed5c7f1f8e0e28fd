"""Against a measured step and against a trace: what is named is what was changed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import windtunnel as wt
from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.training.explain.build_chain import build_chain
from windtunnel.training.explain.time_chain import Chain
from windtunnel.training.explain.trace_gap import predicted_kernels
from windtunnel.training.explanation import Explanation, read_against
from windtunnel.training.predict import prepare
from windtunnel.views.explain import view
from windtunnel.writers.terminal import render

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
    "training": {"seq_len": 16384, "global_batch": 16, "framework": "nemo"},
    "plan": {"tp": 2, "cp": 2},
}
NAMES = {
    "gemm": "nvjet_tst_192x192",
    "attention": "cudnn_generated_fort_native_sdpa_sm90_flash_fprop",
    "memory bound": "vectorized_elementwise_kernel",
    "optimizer": "multi_tensor_apply_kernel",
    "all-gather": "ncclDevKernel_AllGather_RING_LL",
    "reduce-scatter": "ncclDevKernel_ReduceScatter_Sum_bf16",
    "all-reduce": "ncclDevKernel_AllReduce_Sum_f32",
    "send-receive": "ncclDevKernel_SendRecv",
}


def chain_of(*overrides: str) -> Chain:
    return build_chain(*prepare(SCENARIO, overrides=overrides))


def trace_of(chain: Chain, path: Path, scale: dict[str, float] | None = None, *, extra_idle_s: float = 0.0) -> float:
    """Four equal steps of what a chain predicts, kernel after kernel; returns the step in seconds."""
    events: list[dict[str, Any]] = []
    at, number = 0.0, 0
    kernels = predicted_kernels(chain)
    order = {name: i for i, name in enumerate(NAMES)}  # computation first: what is hidden lies next to it
    for n in range(4):
        begin = at
        for name, (exposed, busy, count) in sorted(kernels.items(), key=lambda item: order.get(item[0], 99)):
            length = exposed * 1e6 * (scale or {}).get(name, 1.0)
            if name not in NAMES:
                at += length
                continue
            hidden = max(busy - exposed, 0.0) * 1e6
            pieces = max(int(count), 1)
            for _ in range(pieces):
                number += 1
                events.append(
                    {
                        "ph": "X",
                        "cat": "cuda_runtime",
                        "name": "cudaLaunchKernel",
                        "ts": begin + 1,
                        "dur": 1,
                        "pid": 1,
                        "tid": 1,
                        "args": {"correlation": number},
                    }
                )
                events.append(
                    {
                        "ph": "X",
                        "cat": "kernel",
                        "name": NAMES[name],
                        "ts": at,
                        "dur": length / pieces,
                        "pid": 0,
                        "tid": 7,
                        "args": {"device": 0, "correlation": number},
                    }
                )
                at += length / pieces
            if hidden and name in ("all-gather", "reduce-scatter", "send-receive"):
                number += 1
                events.append(
                    {
                        "ph": "X",
                        "cat": "kernel",
                        "name": NAMES[name],
                        "ts": begin,
                        "dur": hidden,
                        "pid": 0,
                        "tid": 20,
                        "args": {"device": 0, "correlation": -1},
                    }
                )
        at += extra_idle_s * 1e6
        events.append(
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{n}",
                "ts": begin,
                "dur": at - begin,
                "pid": 1,
                "tid": 1,
                "args": {},
            }
        )
    path.write_text(json.dumps({"traceEvents": events}))
    return at / 4e6


def shown(explanation: Explanation, width: int = 120, **which: str) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(render(view(explanation, **which)))
    return out.getvalue()


def test_predicted_kernels_sum_to_the_step() -> None:
    for overrides in ((), ("plan.recompute=full",), ("plan.pp=2", "plan.vpp=2")):
        chain = chain_of(*overrides)
        kernels = predicted_kernels(chain)
        assert sum(exposed for exposed, _, _ in kernels.values()) == pytest.approx(chain.step_time_s, rel=1e-9)
        assert "recompute" not in kernels and "exposed tp" not in kernels


@pytest.mark.slow
def test_a_gap_inside_the_interval_needs_no_explanation() -> None:
    base = wt.simulate_training(SCENARIO, sensitivities=False)
    inside = wt.explain(SCENARIO, against=base.step_time_s * 1.005)
    assert inside.inside_interval
    assert "nothing needs explaining" in shown(inside)
    outside = wt.explain(SCENARIO, against=f"{base.interval.high * 1.3}s")
    assert outside.inside_interval is False and "nothing needs" not in shown(outside)


def test_the_setting_that_was_changed_is_the_first_candidate() -> None:
    truth = wt.simulate_training(SCENARIO, overrides=("plan.recompute=full",), sensitivities=False).step_time_s
    found = wt.explain(SCENARIO, against=truth).candidates
    first = found[0]
    assert (first.name, first.alternative, first.plausible) == ("plan.recompute", "full", True)
    assert first.change_s == pytest.approx(truth - wt.simulate_training(SCENARIO, sensitivities=False).step_time_s)
    assert all(c.change_s > 0 for c in found)  # none that moves the step away


@pytest.mark.slow
def test_coefficients_stay_within_two_standard_errors() -> None:
    base = wt.simulate_training(SCENARIO, sensitivities=False).step_time_s
    explanation = wt.explain(SCENARIO, against=base * 1.5)
    numbers = [c for c in explanation.candidates if c.kind == "coefficient"]
    assert numbers and all(abs(c.sigmas or 0) <= 2 + 1e-9 and c.note for c in numbers)
    small = wt.explain(SCENARIO, against=base * 0.99)
    gemm = next(c for c in small.candidates if c.name == "gemm_fraction.bf16")
    assert gemm.sigmas and gemm.sigmas > 0 and float(gemm.alternative) > float(gemm.value)
    if not gemm.note:  # it closes the gap by itself
        assert base + gemm.change_s == pytest.approx(base * 0.99, rel=2e-3)
    json.dumps(explanation.to_dict())
    quicker = wt.explain(SCENARIO, against=base * 0.95).candidates
    fractions = [c for c in quicker if c.name.partition(".")[0].endswith("_fraction")]
    assert fractions and all(float(c.alternative) <= 1 for c in fractions)  # no more than the data sheet


def test_a_trace_that_equals_the_prediction_leaves_nothing(tmp_path: Path) -> None:
    chain = chain_of()
    step = trace_of(chain, tmp_path / "t.json")
    explanation = wt.explain(SCENARIO, against=tmp_path / "t.json")
    assert explanation.trace is not None and explanation.against_s == pytest.approx(step)
    assert step == pytest.approx(chain.step_time_s, rel=1e-6)
    rows = {row.kernel: row for row in explanation.trace.rows}
    assert sum(r.measured_s for r in rows.values()) == pytest.approx(step)
    assert sum(r.predicted_s for r in rows.values()) == pytest.approx(chain.step_time_s)
    assert rows["gemm"].difference_s == pytest.approx(0, abs=1e-3 * step)


@pytest.mark.slow
def test_slower_products_name_their_coefficient(tmp_path: Path) -> None:
    chain = chain_of()
    trace_of(chain, tmp_path / "t.json", {"gemm": 1.25})
    explanation = wt.explain(SCENARIO, against=str(tmp_path / "t.json"))
    assert explanation.trace is not None
    first = explanation.trace.rows[0]
    assert first.kernel == "gemm" and first.difference_s == pytest.approx(0.25 * first.predicted_s, rel=0.01)
    assert first.reason.startswith("gemm_fraction.bf16")
    text = shown(explanation)
    assert "Against the trace" in text and "gemm_fraction.bf16" in text
    assert all(len(line.rstrip()) <= 80 for line in shown(explanation, 80).splitlines())


@pytest.mark.slow
def test_recomputation_is_recognised_by_its_classes(tmp_path: Path) -> None:
    """Full recomputation adds products, attention and element-wise work together; so does nothing else."""
    trace_of(chain_of("plan.recompute=full"), tmp_path / "t.json")
    explanation = wt.explain(SCENARIO, against=tmp_path / "t.json")
    assert explanation.trace is not None
    candidate, closer = explanation.trace.better[0]
    assert (candidate.name, candidate.alternative) == ("plan.recompute", "full")
    assert closer > 0.95
    assert "plan.recompute" in shown(explanation)


@pytest.mark.slow
def test_a_late_host_shows_as_time_without_kernels(tmp_path: Path) -> None:
    chain = chain_of()
    trace_of(chain, tmp_path / "t.json", extra_idle_s=0.2 * chain.step_time_s)
    explanation = wt.explain(SCENARIO, against=tmp_path / "t.json")
    assert explanation.trace is not None
    first = explanation.trace.rows[0]
    assert first.kernel == "no kernel runs" and "host" in first.reason


@pytest.mark.slow
def test_a_step_per_micro_batch_is_noticed(tmp_path: Path) -> None:
    chain = chain_of()
    trace_of(chain, tmp_path / "t.json", dict.fromkeys([*NAMES, "no kernel runs"], 1 / 16))
    explanation = wt.explain(SCENARIO, against=tmp_path / "t.json")
    assert explanation.trace is not None and "per micro-batch" in explanation.trace.hints[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("14.6", 14.6),
        ("950ms", 0.95),
        ("1.5 s", 1.5),
        ("2min", 120),
        ("800us", 8e-4),
        ("14.6-14.8", 14.7),
        ("15..14 ms", 0.0145),
        ("1e-3", 1e-3),
        (3, 3.0),
    ],
)
def test_against_takes_units(text: str | float, expected: float) -> None:
    assert read_against(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["0", "-3", "1e999", "nan", "inf", "1-2-3", "1.2.3", "12 parsecs", "", "-1s"])
def test_against_refuses_what_no_step_takes(text: str) -> None:
    with pytest.raises(BadInput, match="--against"):
        read_against(text)


@pytest.mark.slow
def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = tmp_path / "s.json"
    scenario.write_text(json.dumps(SCENARIO))
    assert run(["explain", str(scenario), "--class", "gemm"]) == 0
    text = capsys.readouterr().out
    assert "qkv" in text and "TFLOP/s" in text and "fitted" in text
    assert run(["explain", str(scenario), "--class", "TP", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["class"] == "exposed tp"
    assert sum(t["exposed_s"] for t in data["terms"]) == pytest.approx(data["exposed_s"])
    assert run(["explain", str(scenario), "--term", "gemm_fraction"]) == 0
    assert "rows of" in capsys.readouterr().out
    for arguments, problem in (
        (["--class", "gem"], "did you mean gemm?"),
        (["--class", ""], "must be one of"),
        (["--term", "quark"], "--term = quark"),
        (["--term", ""], "must be part of"),
        (["--class", "gemm", "--against", "1"], "leave out --against"),
        (["--against", ""], "--against"),
        (["--against", "0-2"], "--against = 0-2"),
        (["--against", "-5"], "--against = -5"),
        (["--against", str(tmp_path / "none.json")], "none.json"),
        (["--against", str(scenario)], "not a trace"),
    ):
        assert run(["explain", str(scenario), *arguments]) == 2, arguments
        error = capsys.readouterr().err
        assert problem in error and len(error.strip().splitlines()) == 1, error


def test_a_stored_result_is_explained_as_its_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = tmp_path / "r.json"
    data = wt.simulate_training(SCENARIO).to_dict()
    stored.write_text(json.dumps(data))
    assert run(["explain", str(stored), "--class", "attention"]) == 0
    capsys.readouterr()
    data["step_time_s"] *= 1.01  # of another version: explained from what it holds
    stored.write_text(json.dumps(data))
    assert run(["explain", str(stored), "--class", "attention"]) == 2
    assert "need the scenario" in capsys.readouterr().err
    assert run(["explain", str(stored), "--against", "1"]) == 0


def test_api_is_typed() -> None:
    assert api.explain.__annotations__["return"] == "Explanation"


@pytest.mark.slow
def test_a_trace_of_another_run_is_noticed(tmp_path: Path) -> None:
    chain = chain_of()
    trace_of(chain, tmp_path / "t.json")
    data = json.loads((tmp_path / "t.json").read_text())
    top = {
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
    }
    (tmp_path / "t.json").write_text(json.dumps(top | data))
    explanation = wt.explain(SCENARIO, against=tmp_path / "t.json")
    assert explanation.trace is not None
    text = " ".join(explanation.trace.hints)
    assert "8 ranks" in text and "16 devices" in text and "A100" in text
