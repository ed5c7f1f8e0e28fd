"""Layers that recompute, counted by stage or by virtual stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.exporters import launch
from windtunnel.parallel.recompute import recomputing
from windtunnel.specs.scenario import Scenario

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 16, "framework": "megatron_core"},
}


def run(counts: Any, vpp: int = 1) -> Any:
    plan = {"tp": 2, "pp": 4, "vpp": vpp, "recompute": {"policy": "full", "num_layers": counts}}
    return api.simulate_training({**SCENARIO, "plan": plan}, sensitivities=False)


def test_which_layers() -> None:
    assert recomputing([2, 2], [0, 1], None) == [(True, True), (True, True)]
    # a count is a stage's: its second chunk recomputes what the first left over
    assert recomputing([2, 2, 2, 2], [0, 1, 0, 1], 3) == [(True, True), (True, True), (True, False), (True, False)]
    assert recomputing([2, 2, 2, 2], [0, 1, 0, 1], [1, 3]) == [(True, False), (True,) * 2, (False,) * 2, (True, False)]
    by_chunk = recomputing([2, 2, 2, 2], [0, 1, 0, 1], [0, 1, 2, 9])
    assert by_chunk == [(False,) * 2, (True, False), (True,) * 2, (True,) * 2]


def test_a_list_of_equal_counts_is_the_count() -> None:
    for same, vpp in (([3, 3, 3, 3], 1), ([3, 3, 3, 3], 2)):
        listed, plain = run(same, vpp), run(3, vpp)
        assert listed.step_time_s == plain.step_time_s
        assert listed.peak_memory_reserved_bytes == plain.peak_memory_reserved_bytes


def test_layers_count_where_they_are() -> None:
    none, first, last = run(0), run([4, 0, 0, 0]), run([0, 0, 0, 4])
    assert none.step_time_s < first.step_time_s
    assert none.step_time_s < last.step_time_s
    # the first stage holds most micro-batches: recomputing there frees memory, on the last stage it does not
    assert first.memory.per_stage_allocated_bytes[0] < 0.9 * none.memory.per_stage_allocated_bytes[0]
    assert last.memory.per_stage_allocated_bytes[0] == pytest.approx(none.memory.per_stage_allocated_bytes[0], rel=0.02)
    assert first.peak_memory_reserved_bytes < none.peak_memory_reserved_bytes
    assert first.stages[0]["backward_s"] > 1.1 * none.stages[0]["backward_s"]
    assert first.stages[1]["backward_s"] == pytest.approx(none.stages[1]["backward_s"])


def test_counts_must_belong_to_stages() -> None:
    with pytest.raises(BadInput, match="one count a stage"):
        run([1, 2, 3])
    with pytest.raises(BadInput, match="num_layers"):
        run([1, -2, 3, 4])


@pytest.mark.parametrize("target", ["megatron", "megatron_bridge", "torchtitan", "deepspeed"])
def test_targets_say_that_they_know_one_count(target: str, tmp_path: Path) -> None:
    plan = {"tp": 1, "pp": 4, "recompute": {"policy": "full", "num_layers": [4, 3, 0, 0]}}
    scenario = Scenario.model_validate({**SCENARIO, "plan": plan})
    assert any("4 3 0 0" in line for line in launch.export(scenario, target, None, tmp_path).unsupported)
