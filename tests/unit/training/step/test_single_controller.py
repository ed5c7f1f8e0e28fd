"""A single controller: what it launches ahead is free as long as programs are longer than launches."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api


def step(controller: dict[str, Any] | None, **plan: Any) -> Any:
    training: dict[str, Any] = {"seq_len": 2048, "global_batch": 32, "framework": "megatron_core"}
    if controller is not None:
        training["controller"] = controller
    return api.simulate_training(
        {
            "model": "gpt3-2.7b",
            "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
            "training": training,
            "plan": {"pp": 4, "mbs": 1, **plan},
        },
        sensitivities=False,
    )


def test_launches_ahead_are_hidden_and_others_are_not() -> None:
    free, ahead = step(None), step({"dispatch_s": 1e-4, "latency_s": 1e-3})
    behind = step({"dispatch_s": 1e-4, "latency_s": 1e-3, "ahead": False})
    assert ahead.step_time_s == pytest.approx(free.step_time_s, rel=1e-3)
    # every one of the 2 · 32 programs of the last stage pays a launch and the way there and back
    assert behind.step_time_s > free.step_time_s + 2 * 32 * 2.1e-3
    assert sum(behind.breakdown.values()) == pytest.approx(behind.step_time_s)


def test_a_controller_that_is_slower_than_devices_sets_the_pace() -> None:
    slow = step({"dispatch_s": 0.05})
    programs = 4 * 2 * 32
    assert slow.step_time_s >= 0.05 * (programs - 4)
    assert slow.breakdown["host"] + slow.breakdown["bubble"] > 0.8 * slow.step_time_s


@pytest.mark.parametrize("ahead", [True, False])
def test_what_costs_nothing_changes_nothing(ahead: bool) -> None:
    assert step({"ahead": ahead}).step_time_s == pytest.approx(step(None).step_time_s, rel=1e-12)
