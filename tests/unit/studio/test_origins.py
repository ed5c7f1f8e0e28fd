"""What shown numbers are made of: the arithmetic of the words, on real results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windtunnel import api
from windtunnel.studio.origins import at_load, data_sheet, origin_of, origins

SMALL = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 16},
    "plan": {"tp": 1, "mbs": 1, "zero": 1},
}


def value_at(data: Any, path: str) -> Any:
    """Value of a dotted path; names may hold dots."""
    for name in path.split("."):
        data = data[int(name)] if isinstance(data, list) else data[name]
    return data


DAY_S = 86400.0
ARITHMETIC: dict[str, dict[str, Callable[[dict[str, Any]], float]]] = {
    "train": {
        "step_time_s": lambda r: sum(r["breakdown"].values()),
        "tokens_per_s": lambda r: (
            r["scenario"]["training"]["global_batch"] * r["scenario"]["training"]["seq_len"] / r["step_time_s"]
        ),
        "tokens_per_s_per_device": lambda r: r["tokens_per_s"] / r["num_devices"],
        "model_tflops_per_device": lambda r: r["model_flop_per_token"] * r["tokens_per_s_per_device"] / 1e12,
        "peak_memory_allocated_bytes": lambda r: sum(r["memory"]["at_peak"].values()),
        "peak_memory_reserved_bytes": lambda r: (
            r["memory"]["reserved_by_allocator_bytes"]
            + float(r["memory"]["communication_buffer_bytes"] + r["memory"]["context_bytes"])
        ),
        "mean_power_w": lambda r: r["energy_per_token_j"] * r["tokens_per_s_per_device"],
    },
    "run": {
        "ideal_days": lambda r: r["step_time_s"] * r["steps"] / DAY_S,
        "goodput": lambda r: r["seconds"]["work"] / (r["days"]["mean"] * DAY_S),
    },
    "reason": {"cost_usd": lambda r: r["usd_per_day"] / DAY_S / r["problems_per_s"]},
}
"""Command → figure → its value from the figures that its entry names as inputs."""


def repeat_the_arithmetic(command: str, result: dict[str, Any]) -> None:
    """Every figure follows from its inputs."""
    for figure, computed in ARITHMETIC[command].items():
        assert computed(result) == pytest.approx(value_at(result, figure), rel=1e-9), figure


@pytest.mark.parametrize("command", ARITHMETIC)
def test_every_figure_with_an_arithmetic_names_its_inputs(command: str) -> None:
    assert all(any(one.pattern == figure and one.inputs for one in origins(command)) for figure in ARITHMETIC[command])


def test_figures_of_a_step_follow_from_their_inputs() -> None:
    result = api.simulate_training(SMALL, sensitivities=True).to_dict()
    repeat_the_arithmetic("train", result)
    for path in ("step_time_s", "mfu", "peak_memory_reserved_bytes", "mean_power_w", "breakdown.gemm"):
        told = origin_of("train", path)
        assert told["words"]
        for name in told["inputs"]:
            value_at(result, name)


def test_figures_of_a_run_follow_from_their_inputs() -> None:
    run = {"tokens": "20B", "failures": "opt-175b-2022", "replications": 5}
    result = api.simulate_run({**SMALL, "run": run}, sensitivities=False).to_dict()
    repeat_the_arithmetic("run", result)
    step = api.explain({**SMALL, "run": run}).to_dict()
    assert step["step_time_s"] == pytest.approx(result["step_time_s"], rel=1e-9)


def test_a_figure_of_a_load_curve_is_that_of_serving() -> None:
    assert origin_of("serve_curve", "points.3.ttft_s.p99") == {
        **origin_of("serve", "ttft_s.p99"), "inputs": ["queue_s.p99"]}  # fmt: skip
    assert origin_of("train", "breakdown.exposed tp")["group"] == "exposed tp"
    assert origin_of("cluster", "jct_s.mean")["words"] == ""


def test_a_point_of_a_load_curve_is_its_scenario_at_that_load() -> None:
    traffic = {"rate_per_s": 4, "num_requests": 40, "input_tokens": 256, "output_tokens": 32}
    served = {
        **{k: SMALL[k] for k in ("model", "cluster")},
        "serving": {"engine": "vllm", "pools": [{"plan": {"tp": 1}}], "traffic": traffic},
    }
    curve = api.sweep_serving(served, "rate=2,8").to_dict()
    for point in curve["points"]:
        alone = api.simulate_serving(at_load(served, "rate", point["load"])).to_dict()
        assert alone["ttft_s"] == point["ttft_s"]


def test_a_point_of_a_curve_of_offline_traffic_can_be_explained() -> None:
    traffic = {"offline": True, "num_requests": 20, "input_tokens": 128, "output_tokens": 16}
    served = {**{k: SMALL[k] for k in ("model", "cluster")}, "serving": {"traffic": traffic}}
    at = at_load(served, "concurrency", 4.0)
    assert at["serving"]["traffic"] == {
        "concurrency": 4, "num_requests": 20, "input_tokens": 128, "output_tokens": 16}  # fmt: skip
    assert api.explain_serving(at).to_dict()["iterations"]


def test_the_data_sheet_has_its_sources(tmp_path: Path) -> None:
    rows = data_sheet(SMALL)
    assert {"price an hour", "device memory bandwidth"} <= {row["name"] for row in rows}
    assert all(row["source"] for row in rows)
    assert data_sheet({**SMALL, "cluster": "grand-teton-96gb"})
    assert data_sheet({**SMALL, "cluster": {"device": str(tmp_path / "none.yaml")}}) == ()
    assert data_sheet({"learning": {"task": "logistic"}}) == ()


def test_figures_of_strategies_follow_from_their_inputs() -> None:
    result = api.simulate_programs(
        {
            **{name: SMALL[name] for name in ("model", "cluster")},
            "programs": {
                "strategies": [{"best_of_n": {"n": [1, 4], "selector": "checker"}}],
                "problems": 20,
                "offline": True,
                "input_tokens": 100,
                "output_tokens": 50,
                "api_price": {"input": 0.1, "output": 0.2},
            },
            "population": {"pass_1": 0.4},
        }
    ).to_dict()
    for i, one in enumerate(result["candidates"]):
        repeat_the_arithmetic("reason", {**result, **one})
        for path in ("accuracy", "cost_usd", "energy_j", "latency_s.p99", "tokens", "num_devices"):
            told = origin_of("reason", f"candidates.{i}.{path}")
            assert told["words"]
            for name in told["inputs"]:
                value_at({**result, **one}, name)
    for path in ("answers.break_even.1.tokens_a_day", "answers.break_even.1.share_of_capacity"):
        told = origin_of("reason", path)
        assert told["words"] and all(value_at(result, name) is not None for name in told["inputs"])
    assert origin_of("reason", "best.latency_s.p99")["words"] == origin_of("reason", "latency_s.p99")["words"]
