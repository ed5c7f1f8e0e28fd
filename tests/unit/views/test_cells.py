"""Which field of a result stands in which cell of a view, and in which unit: results whose fields are all unlike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from windtunnel import api
from windtunnel.planner.memory_fit import FitResult
from windtunnel.runs.run_choice import RunChoice
from windtunnel.training.comparison import Comparison
from windtunnel.views import cluster, compare, fit, learn, plan, reason, run, search_run, serve, train
from windtunnel.views.view import Table, View, plain

ONE_NODE = {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8}
STEP: dict[str, Any] = {
    "name": "cells",
    "model": "openai-community/gpt2",
    "cluster": ONE_NODE,
    "training": {"seq_len": 1024, "global_batch": 64},
    "plan": {"tp": 1, "mbs": 4},
}


def cells(view: View) -> dict[str, str]:
    """Name of a tile or fact → its value with its unit, and its notes."""
    tiles = {
        tile.name: " | ".join([f"{plain(tile.value)} {tile.unit}".strip(), *map(plain, tile.notes)])
        for tile in view.tiles
    }
    return tiles | {f.name: " | ".join(filter(None, (plain(f.value), plain(f.note)))) for f in view.facts}


def test_run() -> None:
    result = api.simulate_run(
        {**STEP, "run": {"tokens": "20B", "failures": "opt-175b-2022", "replications": 2}}, sensitivities=False
    )
    ettr = {
        "without_queueing": 0.21,
        "steps_running": 0.22,
        "rsc": 0.23,
        "rsc_without_queueing": 0.24,
        "byterobust_cumulative": 0.25,
        "byterobust_sliding_least": 0.26,
    }
    told = replace(
        result,
        days={"mean": 81.0, "p10": 72.0, "p50": 80.5, "p90": 99.0},
        interval={**result.interval, "low": 61.0, "high": 120.0},
        ideal_days=70.0,
        goodput=0.123,
        ettr={**result.ettr, **ettr},
        failures_mean=11.0,
        restarts_mean=22.0,
        spares=3,
        steps=1000,
        step_time_s=2.5,
        energy_kwh=4.0e6,
        carbon_kg=5.0e5,
        cost=6.0e6,
    )
    view = run.view(told)
    assert plain(view.lead[0]) == "81.0 days (P10 72.0, P50 80.5, P90 99.0)"
    assert cells(view) == {
        "ideal": "70.0 days | 1,000 steps of 2.50 s",
        "80 % interval": "61.0 to 120 days | of one run: step time, chance and rates of failures",
        "goodput": "12.3 % | steps that count over wall time",
        "ETTR": "21.0 % | without queueing; steps run 22.0 % of the time",
        "ETTR, published": "23.0 % | RSC (24.0 % without queue), Google goodput the same; ByteRobust 25.0 %, "
        "worst hour 26.0 %",
        "failures": "11 | 22 restarts; profile opt-175b-2022, 3 spares",
        "energy": "4,000 MWh | 500 t CO₂",
        "cost": "$6.00 M | USD, devices of the job and its spares",
    }


def test_cluster(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("submit_s,num_gpus,duration_s\n0,8,20000\n0,4,9000\n3700,8,4000\n", encoding="utf-8")
    result: Any = api.simulate_cluster({"cluster": ONE_NODE, "jobs": {"policy": "fifo", "trace": str(trace)}})
    told = replace(
        result,
        jct_s=replace(result.jct_s, mean=3600.0, p50=7200.0, p90=10800.0, p99=14400.0),
        queue_s=replace(result.queue_s, mean=18000.0, p50=21600.0, p90=25200.0, p99=28800.0),
        makespan_s=36000.0,
        preemptions=41,
        utilisation=0.42,
        fragmentation=0.43,
        fairness_mean=1.44,
        fairness_worst=1.45,
        outage_kills=46,
        deadlines_met=0.47,
        cost=480.0,
        carbon_kg=49.0,
        energy_kwh=50.0,
        power_w={"mean": 5100.0, "p99": 5200.0, "peak": 5300.0},
    )
    assert cells(cluster.view(told)) == {
        "Completion time": "60 min mean | p50 2 h, p90 3 h, p99 4 h",
        "Time in the queue": "5 h mean | p50 6 h, p90 7 h, p99 8 h",
        "Makespan": "10 h | 41 preemptions",
        "Utilisation": "42.0 % | of 8 devices; 43.0 % of devices idle while jobs wait",
        "Finish-time fairness": "mean 1.44, worst 1.45 (above 1: later than on an own share)",
        "Stopped by failures": "46",
        "Device time of jobs": "100.0 % useful",
        "Deadlines met": "47.0 %",
        "Power": "mean 5.1 kW, p99 5.2 kW, peak 5.3 kW",
        "Energy": "50 kWh",
        "Carbon": "49 kg CO₂",
        "Cost": "$480 for all devices over the makespan",
    }


def test_train() -> None:
    result = api.simulate_training(STEP, sensitivities=False)
    told = replace(
        result,
        step_time_s=2.5,
        tokens_per_s=1234.0,
        tokens_per_s_per_device=567.0,
        mfu=0.31,
        hfu=0.32,
        model_tflops_per_device=331.0,
        hardware_tflops_per_device=341.0,
        mean_power_w=351.0,
        bound_by="a resource",
        interval=replace(result.interval, low=2.0, high=3.0),
        memory=replace(result.memory, peak_reserved_bytes=10 * 2**30, capacity_bytes=80 * 2**30),
        peak_memory_reserved_bytes=10 * 2**30,
    )
    found = cells(train.view(told))
    assert found["Step time"].startswith("2.50 s | 80 % interval 2.00 s to 3.00 s")
    assert found["Throughput"] == "567 tokens/s a device | 1,234 tokens/s on 8 devices"
    assert found["MFU"] == "31.0 % | 331 TFLOP/s per device | HFU 32.0 %, 341 TFLOP/s as run"
    assert found["Memory, reserved"].startswith("10.0 GiB of 80.0 GiB | ")
    assert found["Memory, reserved"].endswith("70.0 GiB free")
    assert found["Power"].startswith("351 W per device; ") and found["Bound by"] == "a resource"


def test_serve() -> None:
    traffic = {"rate_per_s": 4, "num_requests": 30, "input_tokens": 64, "output_tokens": 8}
    served = {name: STEP[name] for name in ("name", "model", "cluster")}
    result = api.simulate_serving({**served, "serving": {"engine": "vllm", "traffic": traffic, "slo": {"ttft_s": 1.0}}})
    told = replace(
        result,
        ttft_s=replace(result.ttft_s, p50=1.1, p90=1.2, p99=1.3),
        tpot_s=replace(result.tpot_s, p50=2.1, p90=2.2, p99=2.3),
        throughput_requests_per_s=31.0,
        goodput_requests_per_s=32.0,
        slo_attainment=0.33,
        intervals={
            **result.intervals,
            "ttft_s": {**result.intervals["ttft_s"], "low": 0.9, "high": 1.7},
            "tpot_s": {**result.intervals["tpot_s"], "low": 1.9, "high": 2.7},
        },
    )
    found = cells(serve.view(told))
    assert found["TTFT"].startswith("1.1 s median | p90 1.2 s, p99 1.3 s | 80 % interval of the median")
    assert found["TPOT"].startswith("2.1 s median | p90 2.2 s, p99 2.3 s | 80 % interval of the median")
    assert found["Throughput"].startswith("31 requests/s | ")
    assert found["Goodput"] == "32 requests/s | TTFT up to 1 s for 90 % of requests | met by 33.0 % of requests"
    assert {"Bound by", "Batch", "Cache", "Memory", "Power", "Confidence"} <= found.keys()


@pytest.mark.parametrize(
    ("fits", "words"),
    [
        (True, "fits: 30.0 GiB of 80.0 GiB reserved, 50.0 GiB free; probability to fit 90 %"),
        (False, "does not fit: 30.0 GiB of 80.0 GiB reserved, 7.00 GiB too much; probability to fit 90 %"),
    ],
)
def test_fit(fits: bool, words: str) -> None:
    result: FitResult = api.fit(STEP)
    gib = 2**30
    told = replace(
        result,
        fits=fits,
        reserved_bytes=30 * gib,
        capacity_bytes=80 * gib,
        over_bytes=7 * gib,
        fit_probability=0.9,
        at_peak={"weights": 8 * gib, "activations": 16 * gib},
        largest_mbs=5,
        fewest_devices=6,
    )
    view = fit.view(told)
    assert view.verdict is not None and plain(view.verdict) == words
    peak, nearest = (section.blocks[0] for section in view.sections)
    assert [[plain(cell) for cell in row] for row in peak.rows] == [  # type: ignore[union-attr]
        ["activations", "16.0 GiB", "20.0 %"],
        ["weights", "8.00 GiB", "10.0 %"],
    ]
    shown = [[plain(cell) for cell in row] for row in nearest.rows]  # type: ignore[union-attr]
    assert shown[:2] == [["largest micro-batch", "5"], ["fewest devices", "6"]]


def test_learn() -> None:
    scenario = {
        "learning": {
            "task": "quadratic",
            "workers": 2,
            "steps": 4,
            "algorithms": ["data_parallel"],
            "step_s": 1.0,
            "link": {"bandwidth": "1 Gb/s", "latency": "1 ms"},
        }
    }
    result = api.simulate_learning(scenario, cache=False)
    (own,) = result.algorithms
    told = replace(
        own,
        loss=0.5,
        loss_low=0.4,
        loss_high=0.6,
        metric=0.75,
        hours=2.0,
        bytes_per_worker=3e12,
        kwh=4.0,
        cost=5.0,
        utilisation=0.6,
        time_to_target_s=7200.0,
    )
    titles, rows = learn.table_rows(replace(result, algorithms=(told,), metric="accuracy", goal={"loss": 0.5}))
    assert dict(zip(titles, rows[0], strict=True)) == {
        "algorithm": own.label,
        "loss": "0.5 ± 0.1",
        "accuracy": "0.75",
        "time": "2.00 h",
        "bytes a worker": "3 TB",
        "energy": "4 kWh",
        "cost": "$5.00",
        "computing": "60.0 %",
        "to target": "2.00 h",
    }


def rows(view: View, title: str) -> list[list[str]]:
    """Texts of the table in the section of a title."""
    (found,) = (section for section in view.sections if section.title == title)
    table = next(block for block in found.blocks if isinstance(block, Table))
    return [[plain(cell) for cell in row] for row in table.rows]


def test_plan() -> None:
    searched = {"tp": [1, 2], "mbs": [1, 4]}
    result: Any = api.plan({**STEP, "search": {"space": searched}}, free=True)
    own = replace(
        result.best, step_time_s=4.0, peak_memory_reserved_bytes=9 * 2**30, memory=replace(result.best.memory)
    )
    best = replace(result.best, step_time_s=3.0, mfu=0.31, tokens_per_s=1234.0, tokens_per_s_per_device=567.0)
    told = replace(result, best=best, written=own, compared={"another plan": 6.0}, choice=None)
    found = cells(plan.view(told))
    assert found["Best plan"].startswith("3.00 s | ")
    assert found["Scenario's own plan"].startswith("4.00 s | ")
    assert found["Scenario's own plan"].endswith("9.00 GiB: the best is 25.0 % shorter")
    assert found["Another plan"].startswith("6.00 s | ") and "50.0 %" in found["Another plan"]
    assert found["MFU"] == "31.0 % | 567 tokens/s per device, 1,234 in all"


def test_compare() -> None:
    result = api.simulate_training(STEP, sensitivities=False)
    sizes = {"peak_memory_reserved_bytes": 10 * 2**30}
    a = replace(result, step_time_s=2.0, mfu=0.30, tokens_per_s_per_device=1000.0, num_devices=8, **sizes)
    b = replace(
        result, step_time_s=3.0, mfu=0.32, tokens_per_s_per_device=500.0, num_devices=4, scenario_name="other",
        peak_memory_reserved_bytes=12 * 2**30,
    )  # fmt: skip
    seconds_by_class, bytes_by_kind = {"gemm": 0.75, "bubble": 0.25}, {"weights": -float(2**30)}
    told = Comparison(a=a, b=b, seconds_by_class=seconds_by_class, bytes_by_kind=bytes_by_kind, plan={}, scenario={})
    view = compare.view(told)
    assert plain(view.lead[0]) == "B takes 50.0 % longer than A"
    assert [row[0] for row in rows(view, "From A to B")] == ["A", "gemm", "bubble", "B"]
    assert [row[1] for row in rows(view, "From A to B")] == ["2.00 s", "+750 ms", "+250 ms", "3.00 s"]
    assert rows(view, "Memory at the peak") == [["weights", "−1.00 GiB"]]
    assert rows(view, "Figures") == [
        ["step time", "2.00 s", "3.00 s", "+50.0 %"],
        ["tokens/s per device", "1,000", "500", "−50.0 %"],
        ["MFU", "30.0 %", "32.0 %", "+2.0 points"],
        ["memory reserved", "10.0 GiB", "12.0 GiB", "+2.00 GiB"],
        ["devices", "8", "4", "−50.0 %"],
    ]


def test_search_run() -> None:
    choice = RunChoice(
        tiers="storage sync",
        interval_s=90.0,
        spares=3,
        replications=4,
        days=5.0,
        days_interval=(4.5, 5.5),
        run_cost=6000.0,
        carbon_kg=7000.0,
        goodput=0.8,
        expected_days=9.0,
        behind=0.25,
        behind_interval=(0.125, 0.5),
    )
    shown = search_run.cells(choice, SimpleNamespace(objective="days"))  # type: ignore[arg-type]
    assert dict(zip(search_run.HEAD, shown, strict=True)) == {
        "tiers": "storage sync",
        "saves every": "90.0 s",
        "spares": "3",
        "days (80 %)": "5.00 (4.50 to 5.50)",
        "cost": "$6,000",
        "t CO₂": "7",
        "goodput": "80.0 %",
        "behind the best (80 %)": "0.250 d (0.125 to 0.500)",
    }


def test_reason() -> None:
    result = api.simulate_programs(
        {
            "model": "meta-llama/Llama-3.2-1B",
            "cluster": {**ONE_NODE, "devices_per_node": 1},
            "programs": {
                "strategies": [{"best_of_n": {"n": [1, 2], "selector": "checker"}}],
                "problems": 4,
                "offline": True,
                "input_tokens": 32,
                "output_tokens": 8,
            },
            "population": {"pass_1": 0.4},
        }
    )
    point = result.points[0]
    told = replace(
        point,
        accuracy=replace(point.accuracy, mean=0.5, low=0.4, high=0.7),  # type: ignore[type-var]
        cost_usd=0.125,
        energy_j=250.0,
        latency_s={**point.latency_s, "p50": 2.0, "p99": 3.0},
        tokens=4000.0,
        calls=5.0,
        deadline_met=None,
    )
    shown = dict(zip(reason.titles(result), reason.row(result, told), strict=True))
    assert {name: shown[name] for name in list(shown)[-7:]} == {
        "accuracy": "50.0 % (40.0 to 70.0)",
        "USD a problem": "0.125",
        "J a problem": "250",
        "median": "2.00 s",
        "p99": "3.00 s",
        "tokens": "4,000",
        "calls": "5",
    }
