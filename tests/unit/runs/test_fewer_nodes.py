"""Runs that go on with fewer nodes: what is left of their speed, and what coming back under another plan costs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from windtunnel.runs.fewer_nodes import convert_s
from windtunnel.runs.reduced_pipelines import balanced_layers, reduced_pipelines, stretches
from windtunnel.specs.run import RecoverySpec, RunSpec


def plan(**change: Any) -> Any:
    return SimpleNamespace(**{"tp": 8, "cp": 1, "pp": 4, "dp": 4, "m": 16, **change})


def reduced(policy: str, *, clock_up: float = 1.0, **change: Any) -> list[float]:
    step = SimpleNamespace(stages=[{"forward_s": 0.1, "backward_s": 0.2}] * 4, step_time_s=19 * 0.3)
    cluster = SimpleNamespace(devices_per_node=8, nodes=16)
    recovery = SimpleNamespace(policy=policy, least_replicas=0.5, clock_up=clock_up)
    found = reduced_pipelines(plan(**change), cluster, step, layers=48, recovery=recovery)  # type: ignore[arg-type]
    return [float(x) for x in found]


def test_layers_go_where_they_end_soonest() -> None:
    assert balanced_layers(48, [1.0] * 4) == [12, 12, 12, 12]
    own = balanced_layers(48, [0.75, 1.0, 1.0, 1.0])
    assert sum(own) == 48 and own[0] < 12 and max(n / s for n, s in zip(own, [0.75, 1, 1, 1], strict=True)) <= 13.34


def test_whole_micro_batches_leave_one_peer_with_one_more() -> None:
    assert stretches(plan(), [1, 0, 0, 0], whole=False) == pytest.approx([4 / 3, 1, 1, 1])
    assert stretches(plan(), [1, 0, 0, 0], whole=True) == pytest.approx([22 / 16, 1, 1, 1])


def test_rebalancing_comes_near_the_share_of_nodes_and_rerouting_waits_for_the_stage() -> None:
    rerouted, rebalanced = reduced("reroute"), reduced("rebalance")
    assert rerouted[0] == rebalanced[0] == 1.0 and len(rerouted) == len(rebalanced) == 9
    assert all(a >= b for a, b in zip(rerouted, rebalanced, strict=True))
    assert 16 / 15 < rebalanced[1] < 1.15 < rerouted[1] < 22 / 16
    # one node of every stage: nothing to move, three quarters of the ranks
    assert rebalanced[4] == pytest.approx(4 / 3, rel=0.01) and rerouted[4] == pytest.approx(22 / 16, rel=0.01)
    faster = reduced("rebalance", clock_up=1.1)
    assert all(a <= b for a, b in zip(faster, rebalanced, strict=True)) and faster[1] < rebalanced[1]
    assert np.all(np.diff(rebalanced) >= 0)


def test_conversion_reads_and_writes_every_byte_once() -> None:
    run = RunSpec(steps=1, recovery=RecoverySpec(policy="reshape", convert_processes=2))
    assert convert_s(run, 2.88e9) == pytest.approx(2.0)
    slow = run.model_copy(update={"checkpoint": run.checkpoint.model_copy(update={"storage_write_bytes_per_s": 1e9})})
    assert convert_s(slow, 2.88e9) == pytest.approx(2 * 2.88)
    assert convert_s(RunSpec(steps=1), 2.88e9) == 0.0


SPOT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 256, "framework": "megatron_core"},
    "plan": {"tp": 8, "pp": 4, "zero": 1, "mbs": 1},
    "run": {
        "tokens": "50B",
        "failures": "none",
        "replications": 16,
        "recovery": {"policy": "reshape", "least_replicas": 0.25, "convert_processes": 0},
        "spot": {"rates": {"reclaims_per_1000_node_hours": 60, "return_s": "4 h"}},
    },
}


def test_a_plan_that_needs_no_whole_replicas_is_never_slower_than_one_that_does() -> None:
    """Four nodes a replica: with one node fewer half of the replicas stand still, unless the plan changes."""
    alone = degraded_steps_of("shrink")
    again = degraded_steps_of("reshape")
    assert len(again) == 7 and np.all(np.diff(again) >= 0) and again[0] == 1.0
    assert alone[1] == pytest.approx(2.0, rel=0.05) and again[4] <= alone[1] + 1e-9
    assert again[1] < 1.3  # an eighth of the nodes


def degraded_steps_of(policy: str) -> list[float]:
    from windtunnel.runs.simulate import prepared_run

    run = {**SPOT["run"], "recovery": {**SPOT["run"]["recovery"], "policy": policy}}
    return [float(x) for x in prepared_run({**SPOT, "run": run}).program.job.slow_by_missing]


def test_the_steps_on_fewer_nodes_are_those_of_the_plans_that_are_named() -> None:
    from windtunnel import api

    result = api.simulate_run(SPOT, sensitivities=False)
    first, *_, last = result.replans
    assert first == {"nodes": 8, "plan": "tp 8 · pp 4 · mbs 1"} and last["plan"] == "tp 4 · pp 1 · mbs 2"
    factors = degraded_steps_of("reshape")
    for nodes, factor in ((4, factors[4]), (3, factors[5]), (2, factors[6])):
        replicas = nodes * 2
        batch = replicas * 2 * -(-256 // (replicas * 2))
        step = api.simulate_training(
            {
                "model": SPOT["model"],
                "cluster": {**SPOT["cluster"], "nodes": nodes},
                "training": {**SPOT["training"], "global_batch": batch},
                "plan": {"tp": 4, "pp": 1, "zero": 1, "mbs": 2, "dp": replicas},
            },
            sensitivities=False,
        )
        assert factor == pytest.approx(max(step.step_time_s / result.step_time_s, 1.0), rel=0.02)


def test_replicas_alone_stand_beside_a_plan_that_changes() -> None:
    from windtunnel import api
    from windtunnel.views.run import figure_rows

    result = api.simulate_run(SPOT, sensitivities=False)
    other = result.replicas_only
    assert other is not None and other["days"] > result.days["mean"] and other["cost"] > 0
    assert 0 < other["days_more"]["low"] < other["days_more"]["mean"] < other["days_more"]["high"]
    rows = {name: (value, note) for name, value, note in figure_rows(result)}
    assert "policy shrink" in rows["replicas alone"][1] and "from" in rows["fewer nodes"][1]
    stays = {**SPOT, "run": {**SPOT["run"], "recovery": {"policy": "shrink", "least_replicas": 0.25}}}
    assert api.simulate_run(stays, sensitivities=False).replicas_only is None
