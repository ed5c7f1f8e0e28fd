"""Clusters of unlike groups: what is refused, and the laws that their steps obey."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api, catalog
from windtunnel.cli.export import check_one_cluster
from windtunnel.errors import BadInput
from windtunnel.specs.cluster import MixedCluster
from windtunnel.training.predict import prepare
from windtunnel.training.simulate_step import memory_of, step_time

H100 = {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
A100 = {"device": "a100-sxm-80gb", "nodes": 2, "devices_per_node": 8}
V100 = {"device": "v100-sxm-32gb", "nodes": 2, "devices_per_node": 8}
APART = {"grad_reduce": False, "param_gather": False, "p2p": False}


def scenario(cluster: dict[str, Any], **plan: Any) -> dict[str, Any]:
    """Llama-3.1-8B, 64 sequences a step."""
    return {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": cluster,
        "training": {"seq_len": 4096, "global_batch": 64, "precision": "bf16"},
        "plan": {"tp": 2, "pp": 2, "mbs": 1} | plan,
    }


def seconds(cluster: dict[str, Any], **plan: Any) -> float:
    return step_time(prepare(scenario(cluster, **plan))[0])


def mixed(*groups: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"groups": list(groups), **fields}


@pytest.mark.parametrize("zero", [0, 1])
def test_like_groups_are_one_cluster_that_shards_inside_them(zero: int) -> None:
    plan = {"tp": 4, "pp": 1, "zero": zero, "overlap": APART}
    one = seconds(H100 | {"nodes": 4}, shard_group=4, **plan)
    assert seconds(mixed(H100, H100), **plan) == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("plan", [{}, {"pp": 1, "zero": 3}, {"vpp": 4}, {"schedule": "zb_h1"}])
def test_with_overlap_only_the_phases_of_a_reduction_differ(plan: dict[str, Any]) -> None:
    given = {"tp": 2, "pp": 2} | plan
    one = seconds(H100 | {"nodes": 4}, shard_group=16 // (given["tp"] * given["pp"]), **plan)
    near = 0.06 if plan.get("zero") == 3 else 0.03  # ZeRO-3 has a reduction a layer, and their phases start apart
    assert seconds(mixed(H100, H100), **plan) == pytest.approx(one, rel=near)


STAGES = [
    {"pp": 4},
    {"pp": 2, "zero": 3},
    {"pp": 4, "vpp": 2},
    {"pp": 4, "schedule": "zb_h1", "recompute": {"policy": "full"}},
    {"pp": 4, "offload": {"optimizer": 0.5}, "overlap": {"p2p": False}},
]


@pytest.mark.parametrize("plan", STAGES)
def test_stages_on_like_groups_are_stages_on_one_cluster(plan: dict[str, Any]) -> None:
    one = seconds(H100 | {"nodes": 4}, **plan)
    assert seconds(mixed(H100, H100), group_axis="pp", **plan) == pytest.approx(one, rel=1e-9)


def test_results_of_stages_on_like_groups_are_those_of_one_cluster() -> None:
    one = api.simulate_training(scenario(H100 | {"nodes": 4}, pp=4), trace=True)
    two = api.simulate_training(scenario(mixed(H100, H100), pp=4, group_axis="pp"), trace=True)
    names = (
        "step_time_s",
        "mfu",
        "hfu",
        "peak_memory_allocated_bytes",
        "peak_memory_reserved_bytes",
        "mean_power_w",
        "energy_per_token_j",
        "cost_per_million_tokens",
    )
    for name in names:
        assert getattr(two, name) == pytest.approx(getattr(one, name), rel=1e-9), name
    assert two.breakdown == pytest.approx(one.breakdown, rel=1e-9)
    assert two.sensitivities == pytest.approx(one.sensitivities, rel=1e-9, abs=1e-12)
    peaks = [[s["memory_bytes"] for s in x.stages] for x in (one, two)]
    assert peaks[1] == pytest.approx(peaks[0], rel=0.02)  # each group's curves are drawn to its own fullest stage
    assert two.trace is not None and one.trace is not None
    assert (two.trace.stage == one.trace.stage).all()


def test_uneven_layers_balance_stages_on_unlike_groups() -> None:
    splits = [(16, 16), (20, 12), (26, 6), (30, 2)]
    times = [seconds(mixed(H100, A100), group_axis="pp", stage_layers=list(s)) for s in splits]
    assert times[0] > times[1] > times[2] < times[3]


def test_stages_take_device_and_memory_from_their_group() -> None:
    plan = {"group_axis": "pp", "pp": 4, "stage_layers": [12, 12, 4, 4]}
    result = api.simulate_training(scenario(mixed(A100, V100), **plan), sensitivities=False)
    alone = [
        api.simulate_training(scenario(g | {"nodes": 4}, **plan | {"group_axis": "dp"}), sensitivities=False)
        for g in (A100, V100)
    ]
    for s, stage in enumerate(result.stages):
        assert stage["forward_s"] == alone[s // 2].stages[s]["forward_s"]
    assert [g["stages"] for g in result.groups] == [2, 2]
    assert result.groups[0]["memory_capacity_bytes"] > result.groups[1]["memory_capacity_bytes"]
    assert sum(result.breakdown.values()) == pytest.approx(result.step_time_s)


def test_a_slower_network_between_stages_never_helps() -> None:
    rates = [f"{n} x ethernet-100g" for n in (8, 4, 2, 1)]
    for overlap in ({}, {"p2p": False}):
        plan = {"group_axis": "pp", "stage_layers": [22, 10], "overlap": overlap}
        times = [seconds(mixed(H100, A100, between=rate), **plan) for rate in rates]
        assert times == sorted(times)
        assert times[-1] > times[0]


def test_equal_shares_wait_for_the_slowest_group() -> None:
    joint = seconds(mixed(H100, A100), overlap=APART)
    slow = seconds(mixed(A100, A100), overlap=APART)
    assert joint == pytest.approx(slow, rel=1e-3)
    assert seconds(mixed(H100, A100), batch_shares=[11, 5]) < 0.8 * joint


def test_uneven_shares_balance_and_overshoot() -> None:
    shares = [(8, 8), (10, 6), (12, 4), (15, 1)]
    times = [seconds(mixed(H100, A100), batch_shares=list(s)) for s in shares]
    assert times[0] > times[1] > times[2] < times[3]


def test_groups_may_come_in_any_order() -> None:
    forward = seconds(mixed(H100, A100), batch_shares=[11, 5])
    assert seconds(mixed(A100, H100), batch_shares=[5, 11]) == pytest.approx(forward, rel=1e-12)


def test_a_slower_network_between_groups_never_helps() -> None:
    rates = [f"{n} x ethernet-100g" for n in (8, 4, 2, 1)]
    times = [seconds(mixed(H100, A100, between=rate), batch_shares=[11, 5]) for rate in rates]
    assert times == sorted(times)
    assert times[-1] > times[0]


def test_groups_of_unlike_size_share_by_replicas() -> None:
    small = A100 | {"nodes": 1}
    result = api.simulate_training(scenario(mixed(H100, small), batch_shares=[13, 6]), sensitivities=False)
    assert [g["sequences"] for g in result.groups] == [52, 12]
    assert result.num_devices == 24
    assert result.tokens_per_s * result.step_time_s == pytest.approx(64 * 4096)
    assert sum(result.breakdown.values()) == pytest.approx(result.step_time_s)


def test_each_group_has_its_own_memory() -> None:
    plan = {"tp": 1, "pp": 2, "batch_shares": [3, 5]}
    joint = scenario(mixed(A100, V100), **plan)
    result = api.simulate_training(joint, sensitivities=False)
    large, small = result.groups
    assert small["memory_capacity_bytes"] < large["memory_capacity_bytes"]
    assert large["memory_fits"] and not small["memory_fits"] and not result.memory_fits
    assert any(line.startswith("2 x 8 v100-sxm-32gb: does not fit") for line in result.warnings)
    assert memory_of(prepare(joint)[0]).capacity_bytes == small["memory_capacity_bytes"]


def test_a_traced_step_has_the_stages_of_all_groups() -> None:
    result = api.simulate_training(scenario(mixed(H100, A100)), sensitivities=True, trace=True)
    assert result.trace is not None
    assert set(result.trace.stage.tolist()) == {0, 1, 2, 3}
    assert len(result.stages) == 4
    assert all(change <= 1e-9 for change in result.sensitivities.values())


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"batch_shares": [8, 9]}, "plan.batch_shares", "= 68 of the 64 sequences"),
        ({"batch_shares": [8]}, "plan.batch_shares", "one entry for each of the 2 groups"),
        ({"tp": 8, "pp": 4}, "cluster.groups.0", "multiple of tp · pp · cp = 32"),
        ({"dp": 6}, "plan.dp", "auto or 8"),
        ({"shard_group": 2}, "plan.shard_group", "must be absent"),
        ({"tp": 8, "zero": 3}, "plan.zero", "two replicas"),
        ({"group_axis": "pp", "batch_shares": [8, 8]}, "plan.batch_shares", "for groups along dp"),
        ({"group_axis": "pp", "pp": 3}, "plan.pp", "must divide the 32 devices"),
        ({"group_axis": "pp", "pp": 1}, "cluster.groups.0", "multiple of 32 devices / pp 1 = 32"),
        ({"group_axis": "pp", "order": ["tp", "cp", "pp", "dp"]}, "plan.order", "pp last"),
        ({"group_axis": "pp", "offload": {"activations": 0.5}}, "plan.offload", "must leave activations"),
    ],
)
def test_what_groups_cannot_do_is_said(changes: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        prepare(scenario(mixed(H100, A100), **changes))
    text = {problem.field: problem.rule for problem in caught.value.problems}
    assert words in text[field]


def test_problems_of_all_groups_are_told_at_once() -> None:
    groups = mixed(H100 | {"device": "h10"}, A100 | {"scale_out": "carrier-pigeon"}, between="2 x string")
    with pytest.raises(BadInput) as caught:
        prepare(scenario(groups))
    fields = {problem.field for problem in caught.value.problems}
    assert fields == {"cluster.groups.0.device", "cluster.groups.1.scale_out", "cluster.between"}
    with pytest.raises(BadInput, match="unknown field; did you mean 'devices_per_node'") as caught:
        prepare(scenario(mixed(H100, A100 | {"device_per_node": 8})))
    assert len(caught.value.problems) == 1
    with pytest.raises(BadInput, match="two groups or more"):
        prepare(scenario(mixed(H100)))


def test_shares_need_groups_and_some_verbs_refuse_them() -> None:
    with pytest.raises(BadInput, match="needs groups of unlike devices"):
        prepare(scenario(H100, batch_shares=[4, 4]))
    with pytest.raises(BadInput, match="`fit` does not read groups"):
        api.fit(scenario(mixed(H100, A100)))


def test_named_clusters_are_groups_too() -> None:
    cluster = catalog.resolve_cluster(
        catalog.MixedClusterRef.model_validate({"groups": ["4 x dgx-h100", H100], "between": "ethernet-25g"})
    )
    assert isinstance(cluster, MixedCluster)
    assert cluster.num_devices == 48
    assert cluster.between is not None and cluster.between.nics_per_node == 1
    assert ("cluster.between.nics_per_node", "1", "no number of ports given") in cluster.assumed


def test_an_export_for_groups_is_refused_before_the_search() -> None:
    check_one_cluster(scenario(H100), ())
    with pytest.raises(BadInput, match="does not write launch files for heterogeneous"):
        check_one_cluster(scenario(mixed(H100, A100)), ())


def test_no_measured_pair_speaks_for_groups() -> None:
    shares = ([8, 8], [11, 5])
    found = api.compare(*(scenario(mixed(H100, A100), batch_shares=s) for s in shares))
    assert found.paired is None
    assert found.plan["batch_shares"] == tuple(shares)
    assert found.b.step_time_s < found.a.step_time_s
