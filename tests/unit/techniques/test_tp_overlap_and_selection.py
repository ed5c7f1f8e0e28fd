"""Choosing techniques: knobs, conflicts, order; and the rewrites of tensor-parallel overlap on small segments."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from windtunnel import api, catalog
from windtunnel.errors import BadInput, ProblemList
from windtunnel.program.segment import COMM, COMPUTE, Launch, Segment
from windtunnel.specs.cluster import ClusterRef
from windtunnel.techniques import LEVELS, REGISTRY, applied
from windtunnel.techniques.base import Knob, Paper, Technique
from windtunnel.techniques.limits import merged, with_technique

CLUSTER = catalog.resolve_cluster(ClusterRef(device="h100-sxm-80gb", nodes=1, devices_per_node=8))
OVERLAP = REGISTRY.get("tp-overlap")


def technique(id: str, **fields: Any) -> Technique:
    return Technique(
        id=id,
        family="test",
        summary="",
        paper=Paper("t", 2020, "https://example.org"),
        levels=fields.pop("levels", ("plan",)),
        **fields,
    )


@pytest.fixture
def registered(request: pytest.FixtureRequest) -> Any:
    """Adds techniques for one test."""
    added: list[str] = []

    def add(one: Technique) -> Technique:
        REGISTRY.add(one.id, one)
        added.append(one.id)
        return one

    yield add
    for id in added:
        REGISTRY._entries.pop(id)


# -- choice ------------------------------------------------------------------------------------------------------------


def test_every_entry_says_what_it_is() -> None:
    for id, one in REGISTRY.items():
        assert id == one.id and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id)
        assert one.summary
        # Searches, predictors and meters rewrite nothing: they say how they are run.
        assert (one.saves and one.edits and one.levels) if one.kind == "technique" else one.use
        assert set(one.levels) <= set(LEVELS)
        assert 2010 < one.paper.year < 2030 and one.paper.link.startswith("https://")
        assert one.paper.title in one.paper.bibtex(id)
        for name, knob in one.knobs.items():
            assert knob.doc, name
            assert knob.problem(knob.default) is None, name


def test_what_works_has_an_experiment_and_what_is_partial_says_what_is_missing() -> None:
    from windtunnel_lab import reproduce as papers

    for id, one in REGISTRY.items():
        assert one.experiment in papers.list_papers() if one.status == "works" else one.missing, id


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        applied(
            [
                "tp-overlp",
                {"tp-overlap": {"chunks": 1, "chunk": 4, "method": "rings", "bulk": 1}},
                {"pytorch-ddp": {"bucket_mb": "big"}},
            ]
        )
    text = str(caught.value)
    assert len(caught.value.problems) == 6
    assert "did you mean 'tp-overlap'?" in text and "did you mean 'chunks'?" in text
    assert "must be 2 to 64" in text and "must be one of ring, userbuffers, chunked" in text
    assert "must be true or false" in text and "must be a number, 0.1 to 100000" in text


def test_problems_are_collected_when_a_list_is_given() -> None:
    problems = ProblemList()
    chosen = applied(["no-such-thing", "zb-h1"], problems)
    assert [item.technique.id for item in chosen] == ["zb-h1"]
    assert len(problems) == 1


def test_knobs_have_defaults_and_take_values() -> None:
    (one,) = applied([{"tp-overlap": {"chunks": 8}}])
    assert one.knobs["chunks"] == 8 and one.knobs["method"] == "ring"
    assert Knob(4, 2, 64).problem(2.5) == "must be a whole number, 2 to 64"
    assert Knob(1.0, low=0.0).problem(-1) == "must be 0 or more"
    assert Knob(None, 0, 64).problem(None) is None


def test_two_that_edit_the_same_thing_conflict() -> None:
    with pytest.raises(BadInput, match="conflicts with zb-h1: both edit order at level schedule"):
        applied(["zb-h1", "zb-v"])
    with pytest.raises(BadInput, match="given twice"):
        applied(["zb-h1", {"zb-h1": {}}])
    assert len(applied(["zb-h1", "tp-overlap", "pytorch-ddp"])) == 3


def test_after_resolves_a_conflict_and_orders(registered: Any) -> None:
    edit = (("segment", "tp"),)
    registered(technique("second", levels=("segment",), edits=edit, after=("first",)))
    registered(technique("first", levels=("segment",), edits=edit))
    registered(technique("earliest", levels=("plan",)))
    assert [x.technique.id for x in applied(["second", "first", "earliest"])] == ["earliest", "first", "second"]


def test_a_scenario_reports_unknown_techniques_with_the_rest() -> None:
    scenario = merged(OVERLAP.limit_cases.scenario, {"techniques": ["tp-overlab"], "plan": {"tp": 5}})  # type: ignore[union-attr]
    with pytest.raises(BadInput) as caught:
        api.simulate_training(scenario, sensitivities=False)
    assert "tp-overlap" in str(caught.value) and "plan.tp" in str(caught.value)


def test_it_says_why_it_does_not_apply() -> None:
    from windtunnel.scenarios.load import load_scenario

    base = OVERLAP.limit_cases.scenario  # type: ignore[union-attr]
    assert OVERLAP.applies_to(load_scenario(merged(base, {}))) is None
    assert "tensor" in str(OVERLAP.applies_to(load_scenario(merged(base, {"plan": {"tp": 1}}))))
    assert "pipeline" in str(REGISTRY.get("zb-h1").applies_to(load_scenario(merged(base, {}))))


def test_a_result_warns_of_techniques_that_do_nothing_and_of_partial_ones() -> None:
    scenario = merged(OVERLAP.limit_cases.scenario, {"techniques": ["zb-h1", "flash-attention"]})  # type: ignore[union-attr]
    warnings = api.simulate_training(scenario, sensitivities=False).warnings
    assert "technique zb-h1 does not apply here: there is no pipeline, hence no bubble to fill" in warnings
    assert any("flash-attention is partial" in text for text in warnings)


# -- tensor-parallel overlap -------------------------------------------------------------------------------------------


def gemm(name: str, after: list[int], phase: str = "F") -> Launch:
    launch = Launch(
        name=name, tag="gemm", stream=COMPUTE, alone_s=8e-3, after=after, sm=1.0, hbm_bytes=8e9, flop=8e12, phase=phase
    )
    launch.splittable = phase != "W"
    launch.piece_s = lambda pieces: 8e-3 / pieces + 1e-5
    return launch


def comm(name: str, after: list[int], operation: str, beside: str, phase: str = "F") -> Launch:
    return Launch(
        name=name,
        tag="tp",
        stream=COMM,
        alone_s=4e-3,
        after=after,
        sm=0.2,
        hbm_bytes=1e9,
        up_bytes=7e9,
        phase=phase,
        beside=beside,
        ranks=8,
        operation=operation,
    )


def forward() -> Segment:
    return Segment(
        "L",
        "F",
        [
            comm("tp_gather_fc1", [], "all_gather", "fc1"),
            gemm("fc1", [0]),
            Launch(name="act", tag="memory_bound", stream=COMPUTE, alone_s=1e-3, after=[1]),
            gemm("fc2", [2]),
            comm("tp_reduce_fc2", [3], "reduce_scatter", "fc2"),
        ],
    )


def backward(*, weight: bool = True) -> Segment:
    launches = [comm("tp_reduce_fc2", [], "all_gather", "fc2", "B"), gemm("fc2", [0], "D")]
    if weight:
        launches.append(gemm("fc2", [1], "W"))
    launches.append(
        Launch(name="act", tag="memory_bound", stream=COMPUTE, alone_s=1e-3, after=[len(launches) - 1], phase="D")
    )
    launches.append(gemm("fc1", [len(launches) - 1], "D"))
    if weight:
        launches.append(gemm("fc1", [len(launches) - 1], "W"))
    launches.append(comm("tp_regather_fc1", [len(launches) - 1], "all_gather", "fc1", "B"))
    launches.append(comm("tp_gather_fc1", [len(launches) - 1], "reduce_scatter", "fc1", "B"))
    return Segment("L", "B", launches)


def rewrite(segment: Segment, **knobs: Any) -> Segment:
    (one,) = applied([{"tp-overlap": knobs}])
    return one.on_segment(segment, CLUSTER)


@pytest.mark.parametrize("segment", [forward(), backward(), backward(weight=False)], ids=["F", "B", "B without W"])
@pytest.mark.parametrize(
    "knobs",
    [{}, {"method": "userbuffers"}, {"method": "chunked"}, {"bulk": False}, {"pipeline": False}, {"comm_sms": 0}],
    ids=str,
)
def test_work_is_conserved_and_dependencies_point_back(segment: Segment, knobs: dict[str, Any]) -> None:
    new = rewrite(segment, **knobs)
    for field in ("flop", "hbm_bytes", "up_bytes", "out_bytes"):
        before = sum(getattr(x, field) for x in segment.launches)
        assert sum(getattr(x, field) for x in new.launches) == pytest.approx(before, rel=1e-12)
    for i, launch in enumerate(new.launches):
        assert all(0 <= j < i for j in launch.after)
    assert {(x.name, x.phase) for x in new.launches} == {(x.name, x.phase) for x in segment.launches}
    assert sum(x.alone_s for x in new.launches if x.stream == COMPUTE) >= sum(
        x.alone_s for x in segment.launches if x.stream == COMPUTE
    )


def test_a_ring_has_one_transfer_less_than_blocks_and_starts_with_its_own() -> None:
    new = rewrite(forward())
    count = Counter(x.name for x in new.launches)
    assert count == {"tp_gather_fc1": 7, "fc1": 8, "act": 1, "fc2": 8, "tp_reduce_fc2": 7}
    first = next(x for x in new.launches if x.name == "fc1")
    assert first.after == []
    assert all(x.sm == pytest.approx(1 / CLUSTER.device.num_sms) for x in new.launches if x.tag == "tp")


def test_user_buffers_gather_in_a_ring_and_scatter_in_chunks_on_their_own_sms() -> None:
    new = rewrite(forward(), method="userbuffers")
    count = Counter(x.name for x in new.launches)
    assert (count["tp_gather_fc1"], count["fc1"], count["fc2"], count["tp_reduce_fc2"]) == (7, 8, 4, 4)
    share = {x.name: x.sm * CLUSTER.device.num_sms for x in new.launches if x.tag == "tp"}
    assert share == pytest.approx({"tp_gather_fc1": 1, "tp_reduce_fc2": 16})
    # the last chunk leaves after the last block, where a ring keeps it
    last = max(i for i, x in enumerate(new.launches) if x.name == "fc2")
    assert last in next(x for x in reversed(new.launches) if x.name == "tp_reduce_fc2").after


def test_chunks_wait_for_their_own_collective() -> None:
    new = rewrite(forward(), method="chunked", chunks=2)
    names = [x.name for x in new.launches]
    assert names[:4] == ["tp_gather_fc1", "fc1", "tp_gather_fc1", "fc1"]
    assert new.launches[1].after == [0] and 2 in new.launches[3].after
    assert new.launches[0].sm == 0.2


def test_the_next_operator_waits_for_the_whole_product() -> None:
    new = rewrite(forward())
    act = next(x for x in new.launches if x.name == "act")
    last = max(i for i, x in enumerate(new.launches) if x.name == "fc1")
    assert act.after == [last]


def test_backward_runs_the_second_gather_beside_the_data_gradient_and_the_scatter_beside_the_weights() -> None:
    new = rewrite(backward())
    at = {(x.name, x.phase): i for i, x in enumerate(new.launches)}
    data, weight = at["fc1", "D"], at["fc1", "W"]
    gather, scatter = at["tp_regather_fc1", "B"], at["tp_gather_fc1", "B"]
    assert new.launches[gather].after == new.launches[data].after
    assert set(new.launches[weight].after) == {data, gather}
    assert new.launches[scatter].after == [data]
    assert Counter(x.name for x in new.launches)["tp_reduce_fc2"] == 7


def test_without_a_weight_gradient_the_scatter_is_pipelined() -> None:
    new = rewrite(backward(weight=False))
    assert Counter(x.name for x in new.launches)["tp_gather_fc1"] == 7


def test_without_bulk_overlap_the_second_gather_is_exposed_before_the_weights() -> None:
    new = rewrite(backward(), bulk=False)
    at = {(x.name, x.phase): i for i, x in enumerate(new.launches)}
    data, weight, gather = at["fc1", "D"], at["fc1", "W"], at["tp_regather_fc1", "B"]
    assert data in new.launches[gather].after and gather in new.launches[weight].after
    assert Counter(x.name for x in new.launches)["tp_gather_fc1"] == 7


def test_without_either_overlap_nothing_changes_but_the_order_of_the_second_gather() -> None:
    new = rewrite(backward(), bulk=False, pipeline=False)
    assert [x.name for x in new.launches if x.tag == "tp"] == ["tp_reduce_fc2", "tp_regather_fc1", "tp_gather_fc1"]
    assert sorted(x.alone_s for x in new.launches) == sorted(x.alone_s for x in backward().launches)


def test_all_reduces_are_cut_into_collectives() -> None:
    segment = forward()
    segment.launches[4] = replace(segment.launches[4], operation="all_reduce")
    assert Counter(x.name for x in rewrite(segment, chunks=4).launches)["tp_reduce_fc2"] == 4


def test_recomputed_products_are_pipelined_like_forward_ones() -> None:
    segment = forward()
    for launch in segment.launches:
        launch.phase = "R"
    assert Counter(x.name for x in rewrite(segment).launches)["fc2"] == 8


def test_copy_engines_take_no_sms() -> None:
    assert all(x.sm == 0 for x in rewrite(backward(), comm_sms=0).launches if x.tag == "tp")


def test_a_segment_without_tensor_collectives_is_unchanged() -> None:
    plain = Segment("L", "F", [gemm("fc1", []), gemm("fc2", [0])])
    assert rewrite(plain).launches == plain.launches


# -- attention ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt3-1.3b", "BERT-large", "meta-llama/Llama-3.1-8B"])
def test_fusing_attention_gives_the_graph_that_is_built_fused(name: str) -> None:
    from windtunnel import graph

    model, batch = catalog.model(name), graph.Batch.train(2, 512)
    plain = graph.build(model, batch, unfused_attention=True)
    (chosen,) = applied(["flash-attention"])
    fused, built = chosen.on_graph(plain), graph.build(model, batch)
    assert fused != plain
    for kind, block in built.blocks.items():
        assert fused.blocks[kind].operators == block.operators
        assert set(fused.blocks[kind].tensors) == set(block.tensors)


# -- data parallelism --------------------------------------------------------------------------------------------------


def test_buckets_that_nothing_can_hide_are_exposed() -> None:
    declared = REGISTRY.get("pytorch-ddp").limit_cases
    assert declared is not None
    step = [
        api.simulate_training(with_technique(declared.scenario, "pytorch-ddp", {"bucket_mb": mb}), sensitivities=False)
        for mb in (25.0, 1e5)
    ]
    assert step[0].breakdown["exposed dp"] < step[1].breakdown["exposed dp"]


def test_reducing_every_micro_batch_costs_more() -> None:
    declared = REGISTRY.get("pytorch-ddp").limit_cases
    assert declared is not None
    many = merged(declared.scenario, {"training": {"global_batch": 2048}})
    seconds = [
        api.simulate_training(with_technique(many, "pytorch-ddp", {"no_sync": on}), sensitivities=False).step_time_s
        for on in (True, False)
    ]
    assert seconds[0] < seconds[1]


# -- other packages ----------------------------------------------------------------------------------------------------


def test_another_package_adds_a_technique_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from windtunnel import registry
    from windtunnel.registry import Registry

    point = EntryPoint("theirs", f"{__name__}:OVERLAP", "windtunnel.techniques")
    asked: list[str] = []

    def entry_points(group: str) -> list[EntryPoint]:
        asked.append(group)
        return [point]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    fresh: Registry[Technique] = Registry("techniques", package="windtunnel.techniques.published")
    assert fresh.get("theirs") is OVERLAP
    assert asked == ["windtunnel.techniques"]


# -- documentation -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_example_in_the_documentation_runs(registered: Any) -> None:
    text = (Path(__file__).parents[3] / "docs" / "techniques" / "overview.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    example = next(block for block in code if "TECHNIQUE = Technique(" in block)
    assert len(example.splitlines()) <= 40
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, "docs/techniques/overview.md", "exec"), names)
    mine: Technique = registered(names["TECHNIQUE"])

    def seconds(case: Any, knobs: dict[str, Any] | None = None) -> float:
        given = case if knobs is None else with_technique(case, mine.id, knobs)
        return api.simulate_training(given, sensitivities=False).step_time_s

    declared = mine.limits
    assert declared is not None and declared.free is not None
    scenario, free = merged(declared.scenario, {}), merged(declared.scenario, declared.free)
    assert seconds(scenario, {}) < 0.99 * seconds(scenario)
    assert seconds(free, {}) == pytest.approx(seconds(free), rel=declared.vanishes)
    assert seconds(scenario, dict(declared.costly)) > seconds(scenario)
