"""Pipelines whose micro-batches skip stages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from windtunnel import api, schedules
from windtunnel.schedules import ScheduleCosts
from windtunnel.schedules.skipping import passed, skipping_table
from windtunnel.techniques.published.skippipe import layers_of


@pytest.mark.parametrize(("p", "m", "skipped"), [(4, 6, 1), (6, 12, 2), (8, 5, 3), (8, 32, 5), (3, 4, 0)])
def test_tables_are_valid_and_skip_evenly(p: int, m: int, skipped: int) -> None:
    table = skipping_table(p, m, skipped)
    assert schedules.validate(table) == []
    assert len(table) == 2 * m * (p - skipped)
    visits = table.runs.sum(axis=0)
    assert (visits[[0, -1]] == m).all()
    if skipped:
        assert np.ptp(visits[1:-1]) <= 1 + (m * skipped) % (p - 2)


def test_results_go_to_the_next_stage_that_runs() -> None:
    table = skipping_table(6, 4, 2)
    start, end, _, _ = schedules.evaluate(table, ScheduleCosts(*(np.ones((6, 1)) for _ in range(3)), comm_s=0.5))
    dep = schedules.dependencies(table)
    has = dep >= 0
    apart = table.stage[has] != table.stage[dep[has]]
    assert (start[has] >= end[dep[has]] + 0.5 * apart - 1e-12).all()
    assert (np.abs(table.stage[has] - table.stage[dep[has]]) > 1).any()


def test_without_skips_it_is_the_work_of_1f1b() -> None:
    costs = ScheduleCosts(*(np.ones((5, 1)) for _ in range(3)))
    plain = schedules.evaluate(schedules.build("1f1b", 5, 20), costs)[2]
    assert schedules.evaluate(skipping_table(5, 20, 0), costs)[2] == pytest.approx(plain, rel=0.02)


def test_the_validator_knows_who_skips() -> None:
    good = skipping_table(6, 6, 2)
    runs = good.runs.copy()
    runs[0] = ~runs[0]
    assert any("first or the last" in x for x in schedules.validate(replace(good, runs=runs)))
    runs = np.roll(passed(6, 6, 2), 1, axis=0)
    assert any("times" in x for x in schedules.validate(replace(good, runs=runs)))


def test_ends_hold_what_the_stages_between_run() -> None:
    layers = layers_of(32, 8, 0.375)
    assert sum(layers) == 32 and layers[0] == layers[-1] < min(layers[1:-1])


def scenario(**training: Any) -> dict[str, Any]:
    return {
        "model": "gpt3-2.7b",
        "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": 64, **training},
        "plan": {"pp": 8, "mbs": 1},
        "techniques": [{"skippipe": {"ratio": 0.375}}],
    }


def test_hardware_flop_falls_by_the_layers_that_are_skipped() -> None:
    run = api.simulate_training(scenario(), sensitivities=False)
    full = api.simulate_training(scenario() | {"techniques": []}, sensitivities=False)
    flop = [r.hardware_tflops_per_device * r.step_time_s for r in (run, full)]
    assert 0.5 < flop[0] / flop[1] < 0.8
    assert sum(run.breakdown.values()) == pytest.approx(run.step_time_s)


def test_the_planner_searches_with_it() -> None:
    space = {"pp": [4, 8], "tp": [1, 2], "vpp": [1], "mbs": [1], "cp": [1]}
    found = api.plan(scenario() | {"plan": {}, "search": {"space": space}})
    assert found.proof.complete
    assert len(set(found.best.plan["stage_layers"])) > 1  # the ends run for all micro-batches and have fewer layers
