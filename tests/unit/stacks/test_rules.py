"""What releases can run: dated rules, what is inherited, and one line for each stated value that cannot run."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import schedules
from windtunnel.specs.plan import RECOMPUTE_MODULES, PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.rules import CP_KINDS, RULED, cannot_run, runnable
from windtunnel.stacks.stack_files import FRAMEWORKS, stack_file

ALLOWED: dict[str, tuple[Any, ...]] = {
    "schedule": tuple(schedules.list_ids()),
    "cp_kind": CP_KINDS,
    "zero": (0, 1, 2, 3),
    "zero_in_pipelines": (0, 1, 2, 3),
    "recompute_modules": RECOMPUTE_MODULES,
    "dispatcher": ("alltoall", "allgather", "deepep", "hybridep", "einsum"),
}


def lines_of(framework: str, plan: dict[str, Any], version: str = "", **training: Any) -> tuple[str, ...]:
    spec = TrainingSpec(framework=framework, framework_version=version, seq_len=2048, global_batch=8, **training)
    return cannot_run(PlanSpec.model_validate(plan), spec, runnable(framework, version))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_rows_name_fields_and_values_that_exist_each_with_a_source(framework: str) -> None:
    for row in stack_file(framework).get("rules", ()):
        assert row["field"] in RULED and row["source"]
        assert set(row["allowed"]) <= set(ALLOWED[row["field"]]), row


def test_megatron_has_no_v_shaped_schedule_and_what_inherits_from_it_neither() -> None:
    for framework in ("megatron_core", "nemo", "megatron_bridge"):
        assert runnable(framework).rules["schedule"].values == ("1f1b", "interleaved_1f1b")
    assert runnable("rocm_megatron").allows("schedule", "zb_v")
    assert runnable("torchtitan", "2025-12").allows("schedule", "dualpipev")
    assert not runnable("torchtitan", "2025-06").allows("schedule", "dualpipev")


def test_a_release_has_what_came_before_it() -> None:
    assert runnable("megatron_core", "0.8").rules["cp_kind"].values == ("ring",)
    assert "all_to_all" in runnable("megatron_core", "0.12").rules["cp_kind"].values
    assert not runnable("megatron_core", "0.12").allows("dispatcher", "hybridep")
    assert runnable("megatron_core").allows("dispatcher", "hybridep")


def test_nothing_is_refused_where_no_rule_is_known() -> None:
    assert runnable("generic").rules == {} and runnable("generic").allows("schedule", "dualpipev")


def test_each_stated_value_that_cannot_run_is_one_line() -> None:
    (line,) = lines_of("megatron_core", {"pp": 4, "vpp": 2, "schedule": "dualpipev"})
    assert line.startswith("plan.schedule: megatron_core cannot run dualpipev: it runs 1f1b, interleaved_1f1b (")
    assert "\n" not in line
    (line,) = lines_of("deepspeed", {"pp": 4, "zero": 3})
    assert line.startswith("plan.zero: deepspeed cannot run 3 with pipelines")
    (line,) = lines_of("megatron_2021", {"cp": 2})
    assert line.startswith("plan.cp_kind: megatron_2021 cannot run ring: it has none")
    (line,) = lines_of("megatron_core", {}, "0.12", moe_dispatcher="hybridep")
    assert line.startswith("training.moe_dispatcher: megatron_core 0.12 cannot run hybridep")


@pytest.mark.parametrize(
    ("framework", "plan"),
    [
        ("megatron_core", {"pp": 4, "vpp": 2}),
        ("megatron_core", {"schedule": "dualpipev"}),  # no pipeline: it does nothing
        ("deepspeed", {"zero": 3}),
        ("deepspeed", {"cp": 2}),  # the framework's own kind runs
        ("fsdp1", {"zero": 3}),
        ("torchtitan", {"cp_kind": "all_to_all"}),  # one rank of context exchanges nothing
    ],
)
def test_what_runs_is_not_refused(framework: str, plan: dict[str, Any]) -> None:
    assert lines_of(framework, plan) == ()
