"""A run's closed form says what its replications say on average, and what it adds to ideal days is never too little."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from windtunnel.runs.event_loop.program import DEGRADED, LOST, STRAGGLER, WORK
from windtunnel.runs.expected import expected_run, least_stretch
from windtunnel.runs.prepare_run import PreparedRun
from windtunnel.runs.run_bill import replicated
from windtunnel.runs.simulate import prepared_run

BASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 64, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 1024, "framework": "megatron_core"},
    "plan": {"tp": 2, "pp": 1, "zero": 1, "recompute": "none"},
}
HOST = {"tiers": [{"to": "host", "mode": "async"}, {"to": "storage", "mode": "async", "every": 8}]}


def slow(**kwargs: Any) -> dict[str, Any]:
    return {"causes": [{"name": "one", "per_1000_node_days": 20, "detect_s": 7200, **kwargs}]}


@pytest.fixture(scope="module")
def step() -> PreparedRun:
    return prepared_run({**BASE, "run": {"tokens": "2T"}})


@pytest.mark.parametrize(
    ("run", "within"),
    [
        ({"failures": "opt-175b-2022", "recovery": {"spares": 2}}, 0.025),
        ({"failures": "llama3-2024", "recovery": {"spares": 4}, "checkpoint": HOST}, 0.005),
        ({"failures": "opt-175b-2022", "recovery": {"pool_nodes": 8}}, 0.01),
        ({"failures": "opt-175b-2022", "recovery": {"spares": 1, "shared_nodes": 8}}, 0.015),
        ({"failures": "bloom-176b-2022", "recovery": {"spares": 3}, "maintenance": {}}, 0.01),
        ({"failures": slow(slow=1.5), "recovery": {"spares": 4}}, 0.015),
        ({"failures": slow(silent=True), "recovery": {"spares": 4}}, 0.025),
        ({"failures": "opt-175b-2022"}, 0.1),
    ],
)
def test_replications_agree(run: dict[str, Any], within: float) -> None:
    x = prepared_run({**BASE, "run": {"tokens": "2T", **run}})
    expected = expected_run(x.program)
    seconds, _ = replicated(x, 60)
    wall = seconds.sum(axis=1)
    error = wall.std() / np.sqrt(len(wall))
    assert abs(expected.wall_s - wall.mean()) <= within * wall.mean() + 2 * error
    running = seconds[:, [WORK, LOST, DEGRADED, STRAGGLER]].sum(axis=1).mean()
    assert expected.running_s == pytest.approx(running, rel=0.02)
    assert x.ideal_s * least_stretch(x.program) <= expected.wall_s


def test_without_failures_only_saves_are_added(step: PreparedRun) -> None:
    kinds = step.program.kinds._replace(rate=step.program.kinds.rate * 0.0)
    program = replace(step.program, kinds=kinds)
    start = sum(getattr(program.restart, n) for n in ("schedule_s", "initialise_s", "compile_s", "refill_s"))
    saves = program.job.work_s / program.job.interval_s * program.tiers.block_s[0]
    assert expected_run(program).wall_s == pytest.approx(program.job.work_s + saves + start, rel=1e-9)
    assert least_stretch(program) == 1.0


def test_a_failure_that_leaves_no_copy_costs_the_whole_run(step: PreparedRun) -> None:
    lost = step.program.kinds._replace(survives=step.program.kinds.survives * 0.0)
    assert expected_run(replace(step.program, kinds=lost)).wall_s > 1.2 * expected_run(step.program).wall_s
