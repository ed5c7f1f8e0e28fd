"""Every level that a technique may act at: settings, clusters, selected entries, schedules; conflicts between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from typing import Any, get_args

import numpy as np
import pytest

from windtunnel import api, schedules
from windtunnel.errors import BadInput
from windtunnel.program.segment import COMPUTE, Segment
from windtunnel.schedules.table import B, F
from windtunnel.specs.serving import Engine, PoolSpec, ServingSpec
from windtunnel.specs.traffic import TrafficSpec
from windtunnel.specs.workload import Framework
from windtunnel.techniques import REGISTRY, applied
from windtunnel.techniques.base import HOOKS, LEVELS, Knob, Paper, ScheduleCase, Technique
from windtunnel.techniques.limits import FREE, FREE_IN, RESOURCES, merged
from windtunnel.techniques.selected import SLOTS, slot_of
from windtunnel.techniques.serving import chained

PAPER = Paper("A paper", 2024, "https://example.org/a")
CASE: dict[str, Any] = {
    "model": "gpt3-6.7b",
    "cluster": {"device": "a100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 2048, "global_batch": 32, "framework": "megatron_core"},
    "plan": {"tp": 2, "pp": 4, "mbs": 1},
}


@pytest.fixture
def registered() -> Iterator[Any]:
    """Adds techniques for one test."""
    added: list[str] = []

    def add(id: str, level: str = "plan", **fields: Any) -> Technique:
        added.append(id)
        one = Technique(id=id, family="test", summary="for a test", paper=PAPER, levels=(level,), **fields)  # type: ignore[arg-type]
        return REGISTRY.add(id, one)

    yield add
    for id in added:
        REGISTRY._entries.pop(id)


def run(*techniques: Any, change: dict[str, Any] | None = None) -> Any:
    scenario = merged(merged(CASE, change or {}), {"techniques": list(techniques)})
    return api.simulate_training(scenario, sensitivities=False)


def test_a_hook_of_the_training_section_changes_what_is_trained_and_nothing_is_written_back(registered: Any) -> None:
    registered("shorter", workload=lambda training, knobs: training.model_copy(update={"seq_len": 1024}))
    result, plain = run("shorter"), run(change={"training": {"seq_len": 1024}})
    assert result.step_time_s == plain.step_time_s
    assert result.tokens_per_s == plain.tokens_per_s
    assert result.scenario["training"]["seq_len"] == 2048
    assert result.techniques[0] == "shorter" and PAPER.line() in result.citations


def test_a_hook_of_the_cluster_exchanges_it(registered: Any) -> None:
    registered("thin", cluster=lambda cluster, knobs: cluster.model_copy(update={"power_cap_w": 200.0}))
    assert run("thin").step_time_s == run(change={"cluster": {"power_cap_w": 200.0}}).step_time_s


@pytest.mark.parametrize(
    ("selects", "change"),
    [
        ({"schedule": "gpipe"}, {"plan": {"schedule": "gpipe"}}),
        ({"schedule": "$order"}, {"plan": {"schedule": "gpipe"}}),
        ({"device": "a100-sxm-40gb"}, {"cluster": {"device": "a100-sxm-40gb", "scale_out": None}}),
        ({"scale_up": "pcie4"}, {"cluster": {"scale_up": "pcie4"}}),
        ({"collective.dp.reduce_scatter": "ring"}, {"plan": {"collectives": {"dp.reduce_scatter": "ring"}}}),
    ],
    ids=str,
)
def test_what_is_selected_is_the_field_that_a_scenario_can_set(
    registered: Any, selects: dict[str, str], change: dict[str, Any]
) -> None:
    registered("chooser", selects=selects, knobs={"order": Knob("gpipe", choices=("gpipe", "1f1b"))})
    chosen = run("chooser")
    assert chosen.step_time_s == run(change=change).step_time_s
    if "reduce_scatter" not in str(selects):
        assert chosen.step_time_s != run().step_time_s


def test_named_algorithms_take_their_own_time() -> None:
    by = {
        name: run(change={"plan": {"sp": False, "collectives": {"tp.all_reduce": name}}}).step_time_s
        for name in ("ring", "tree", "one_shot")
    }
    two = {"tp.all_reduce": "tree", "pp.all_reduce": "tree"}  # the embedding that both ends of the pipeline share
    by["two"] = run(change={"plan": {"sp": False, "collectives": two}}).step_time_s
    by["all"] = run(change={"plan": {"sp": False, "collectives": {"all.all_reduce": "tree"}}}).step_time_s
    assert len({by["ring"], by["tree"], by["one_shot"]}) == 3
    assert by["all"] == by["two"] != by["tree"]


def test_a_library_without_in_switch_reduction_is_slower_where_switches_reduce(registered: Any) -> None:
    registered("plain", selects={"library": "nccl_nvls_off"})
    hopper = {"cluster": {"device": "h100-sxm-80gb", "nodes": 1}, "plan": {"tp": 8, "pp": 1, "sp": False}}
    assert run("plain", change=hopper).step_time_s > run(change=hopper).step_time_s


def test_wrong_collectives_are_all_reported() -> None:
    wrong = {"tp.all_reduce": "rnig", "xp.all_reduce": "ring", "tp.all_to_all": "tree", "dp.all_reduce": "nvls"}
    with pytest.raises(BadInput) as caught:
        run(change={"plan": {"collectives": wrong, "collective_library": "ncll"}})
    text = str(caught.value)
    assert len(caught.value.problems) == 5
    assert "did you mean 'ring'?" in text and "did you mean 'nccl'?" in text
    assert "AXIS.OPERATION" in text and "not all_to_all" in text and "reduces" in text


def test_a_schedule_hook_sees_the_costs_and_its_table_runs(registered: Any) -> None:
    seen: list[ScheduleCase] = []

    def late(case: ScheduleCase, knobs: dict[str, Any]) -> ScheduleCase:
        seen.append(case)
        return replace(case, id="gpipe")

    registered("late", "schedule", schedule=late)
    assert run("late").step_time_s == run(change={"plan": {"schedule": "gpipe"}}).step_time_s
    assert seen[0].costs is None and seen[1].costs is not None
    assert seen[1].costs.forward_s.shape == (4, 1) and (seen[1].costs.forward_s > 0).all()


def test_a_schedule_that_cannot_run_is_refused(registered: Any) -> None:
    def backwards(case: ScheduleCase, knobs: dict[str, Any]) -> ScheduleCase:
        table = case.table()
        return replace(case, own=replace(table, kind=np.where(table.kind == F, B, F).astype(np.int8)))

    registered("backwards", "schedule", schedule=backwards)
    with pytest.raises(schedules.ScheduleError, match="comes before its F"):
        run("backwards")


def test_a_schedule_of_other_sizes_is_refused(registered: Any) -> None:
    registered("wider", "schedule", schedule=lambda case, knobs: replace(case, v=2))
    with pytest.raises(schedules.ScheduleError, match="wider: makes a schedule of pp 4, 8 micro-batches, vpp 2"):
        run("wider")


def test_plan_searches_under_a_schedule_of_a_technique(registered: Any) -> None:
    registered("late", "schedule", schedule=lambda case, knobs: replace(case, id="gpipe") if case.p > 1 else case)
    change = {"search": {"space": {"tp": [1, 2], "pp": [2, 4], "vpp": [1], "mbs": [1], "cp": [1]}}}
    without, found = (api.plan(merged(CASE, change | {"techniques": t})) for t in ([], ["late"]))
    assert found.proof.complete
    assert found.best.plan["schedule"] == "gpipe" != without.best.plan["schedule"]


def test_conflicts_are_the_same_whichever_comes_first(registered: Any) -> None:
    registered("a-one", selects={"schedule": "gpipe"})
    registered("b-two", selects={"schedule": "$order"}, knobs={"order": Knob("1f1b", choices=("gpipe", "1f1b"))})
    registered("c-three", edits=(("plan", "x"), ("segment", "y")))
    registered("d-four", edits=(("segment", "y"), ("plan", "x")))
    for pair, why in (
        (["a-one", "b-two"], "both select schedule (gpipe and 1f1b)"),
        (["c-three", "d-four"], "both edit x at level plan, y at level segment"),
    ):
        for order in (pair, pair[::-1]):
            with pytest.raises(BadInput) as caught:
                applied(order)
            assert f"{order[1]}: conflicts with {order[0]}: {why}" in str(caught.value).replace("techniques = ", "")
    assert len(applied(["a-one", {"b-two": {"order": "gpipe"}}])) == 2


def test_what_is_required_must_be_there_and_runs_earlier(registered: Any) -> None:
    registered("a-later", requires=("z-first",), edits=(("plan", "x"),))
    registered("z-first", edits=(("plan", "x"),))
    with pytest.raises(BadInput, match="needs z-first"):
        applied(["a-later"])
    assert [x.technique.id for x in applied(["a-later", "z-first"])] == ["z-first", "a-later"]


def test_every_entry_declares_levels_of_its_hooks_and_known_slots() -> None:
    for id, one in REGISTRY.items():
        for hook, levels in HOOKS.items():
            assert not getattr(one, hook) or set(levels) & set(one.levels), (id, hook)
        for key in one.selects:
            assert slot_of(key) in SLOTS and SLOTS[slot_of(key)][0] in one.levels, (id, key)
        if one.kind == "technique":  # searches, predictors and meters relieve nothing by themselves
            assert one.relieves in RESOURCES, f"{id}: say which resource it relieves"
        assert {level for level, _ in one.edits} <= set(LEVELS), id
        assert {*one.after, *one.requires} <= set(REGISTRY.list()), id


def test_known_resources_can_be_made_free() -> None:
    for name, change in FREE.items():
        run(change=dict(change))
        assert name in RESOURCES
    run(change=dict(FREE_IN["host link"](CASE)))


MIXTURE: dict[str, Any] = {
    "model": "mistralai/Mixtral-8x7B-v0.1",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 96, "framework": "megatron_core"},
    "plan": {
        "pp": 4,
        "vpp": 2,
        "ep": 8,
        "tp": 1,
        "mbs": 1,
        "schedule": "dualpipev",
        "overlap": {"moe_a2a": False},
    },
}


def test_a_pair_hook_says_how_two_passes_run_together(registered: Any) -> None:
    asked: list[tuple[str, str]] = []

    def in_a_row(forward: Segment, backward: Segment, cluster: Any, knobs: Any) -> Segment:
        asked.append((forward.direction, backward.direction))
        out = Segment("row", "F", [])
        chained(out, [replace(x, stream=COMPUTE) for x in [*forward.launches, *backward.launches]])
        return out

    registered("in-a-row", "pair", pair=in_a_row)
    registered("as-it-is", "pair", pair=lambda forward, backward, cluster, knobs: None)
    plain, row, same = (run(*ids, change=MIXTURE) for ids in ((), ("in-a-row",), ("as-it-is",)))
    assert set(asked) == {("F", "B")}
    assert row.step_time_s > 1.01 * plain.step_time_s  # nothing hides behind the other pass
    assert same.step_time_s == plain.step_time_s
    assert sum(row.breakdown.values()) == pytest.approx(row.step_time_s)


def test_a_pair_hook_may_not_drop_work(registered: Any) -> None:
    registered("lazy", "pair", pair=lambda forward, backward, cluster, knobs: forward)
    with pytest.raises(ValueError, match="technique lazy: flop of a pair"):
        run("lazy", change=MIXTURE)


FLAGS = {"megatron_core": "megatron-0.", "vllm": "vllm-0.", "sglang": "sglang-0.", "torchtitan": "torchtitan-0."}


def test_options_are_named_by_software_that_a_scenario_can_name_and_are_known_there() -> None:
    names = {*get_args(Framework), *get_args(get_args(Engine)[0])}
    folder = files("windtunnel.exporters") / "flags"
    texts = {
        software: " ".join(p.read_text("utf-8") for p in folder.iterdir() if p.name.startswith(start))
        for software, start in FLAGS.items()
    }
    for id, one in REGISTRY.items():
        assert set(one.where) <= names, id
        for software, option in one.where.items():
            for flag in re.findall(r"--[a-z-]+", option):
                assert software not in texts or flag in texts[software], (id, software, flag)


def test_what_is_selected_for_serving_is_the_field_of_every_pool(registered: Any) -> None:
    registered(
        "server",
        "run",
        selects={"policy": "$how", "queue": "lpm", "router": "least_loaded"},
        knobs={"how": Knob("sarathi", choices=("sarathi", "orca"))},
    )
    pools = tuple(PoolSpec(replicas=n) for n in (1, 2))
    traffic = TrafficSpec(rate_per_s=1.0, num_requests=9, input_tokens=8, output_tokens=8)
    section = ServingSpec(pools=pools, traffic=traffic)
    (one,) = applied([{"server": {"how": "orca"}}])
    changed = one.on_serving(section)
    assert [(p.policy, p.queue, p.replicas) for p in changed.pools] == [("orca", "lpm", 1), ("orca", "lpm", 2)]
    assert changed.router == "least_loaded" and changed.traffic == section.traffic
    assert one.technique.scopes == ("serving",)
