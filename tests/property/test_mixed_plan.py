"""Plans on groups of unlike devices: bounds below simulations, searches equal to enumeration, laws of what is found."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from windtunnel import api
from windtunnel.errors import BadInput, Infeasible
from windtunnel.planner.heterogeneous.plan_groups import _case
from windtunnel.planner.heterogeneous.search import MixedSearch, even
from windtunnel.planner.heterogeneous.space import Layout, mixed_space, spread
from windtunnel.specs.scenario import Scenario
from windtunnel.training.prepare_step import prepare
from windtunnel.training.simulate_step import memory_of, run
from windtunnel.views.plan import instead_words, view
from windtunnel.writers.terminal import render

H100 = {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8}
A100 = {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 8}
V100 = {"device": "v100-sxm-32gb", "nodes": 1, "devices_per_node": 8}
TINY = {
    "family": "dense",
    "name": "tiny",
    "hidden_size": 2048,
    "intermediate_size": 5504,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 32000,
}


def scenario(*groups: dict[str, Any], space: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    cluster: dict[str, Any] = {"groups": list(groups), "between": fields.pop("between", "2 x ethernet-100g")}
    training = {"seq_len": 2048, "global_batch": fields.pop("batch", 24), "precision": "bf16"}
    return {"model": TINY, "cluster": cluster, "training": training, "search": {"space": space or {}}, **fields}


def searched(source: dict[str, Any]) -> MixedSearch:
    read = Scenario.model_validate(source)
    case, wanted = _case(read, None, None)  # type: ignore[arg-type]
    return MixedSearch(case, mixed_space(case, read.plan, wanted), 1.0)


def step_of(search: MixedSearch, i: int, row: int) -> Any:
    c = search.case
    search.bounds(i)
    return prepare(c.model, c.cluster, c.training, search._written(i, row), c.techniques, cache=c.cache)


SPACES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"recompute": ["none", "full:1"], "mbs": [1, 2]}, {}),
    ({"zero": [3], "recompute": ["none", "full"], "cp": [1, 2]}, {}),
    ({"overlap_grad_reduce": [True, False], "overlap_p2p": [True, False], "overlap_param_gather": [False]}, {}),
    ({"schedule": ["zb_h1", "gpipe"], "zero": [0, 1]}, {}),
    ({"mbs": [1]}, {"framework": "torchtitan"}),
    ({"zero": [2], "mbs": [1]}, {"framework": "deepspeed"}),
]


@pytest.mark.parametrize(("space", "training"), SPACES)
def test_bounds_are_below_simulations(space: dict[str, Any], training: dict[str, Any]) -> None:
    source = scenario(H100, A100, space={"tp": [1, 2], "cp": [1], "mbs": [1]} | space)
    source["training"] |= training
    search, rng = searched(source), random.Random(7)
    layouts = search.space.layouts
    tight = []
    for _ in range(24):
        i = rng.randrange(len(layouts))
        each = search.bounds(i)
        row = rng.randrange(len(each))
        if not np.isfinite(each[row]):
            continue
        try:
            step = step_of(search, i, row)
        except BadInput:
            continue
        timeline = run(step)
        full = each[row] if layouts[i].plan.group_axis == "dp" else search._whole(i, row)
        assert search.ideal(layouts[i]) <= full * (1 + 1e-9)
        assert each[row] <= full * (1 + 1e-9)
        assert full <= timeline.makespan_s * (1 + 1e-9), search._written(i, row)
        reports = memory_of(step, timeline)
        assert search._has_room(i, row) or reports.peak_reserved_bytes > reports.capacity_bytes
        tight.append(full / timeline.makespan_s)
    assert len(tight) > 5
    assert np.median(tight) > 0.6


def test_bounds_with_a_split_backward_and_sharded_parameters() -> None:
    groups = A100 | {"device": "a100-sxm-40gb", "nodes": 2}, V100 | {"devices_per_node": 2}
    space = {"tp": [1], "pp": [9], "cp": [2], "mbs": [8], "vpp": [1], "schedule": ["zb_h1"], "recompute": ["none"]}
    source = scenario(*groups, space=space, batch=48, model="allenai/OLMoE-1B-7B-0924")
    source["training"]["framework"] = "torchtitan"
    search, uneven = searched(source), (1, 1, 2, 2, 2, 2, 2, 2, 2)
    seen = 0
    for i in range(len(search.space.layouts)):
        splits = [search._written(i, row).stage_layers for row in range(len(search.bounds(i)))]
        for row in (splits.index(uneven),) if uneven in splits else ():
            seen += 1
            assert search._whole(i, row) <= run(step_of(search, i, row)).makespan_s * (1 + 1e-9)
    assert seen


def test_the_search_equals_enumeration() -> None:
    search = searched(
        scenario(H100, A100, space={"tp": [1, 2], "cp": [1], "mbs": [1], "recompute": ["none"]}, batch=12)
    )
    found, proof = search.search()
    best = min(
        run(step_of(search, i, row)).makespan_s
        for i, x in enumerate(search.space.layouts)
        for row in range(len(x.shares))
        if np.isfinite(search.bounds(i)[row])
    )
    assert found.best is not None
    assert found.best.step_time_s == best == proof.best_s
    assert proof.complete and not proof.open
    assert proof.candidates == search.space.count
    assert proof.candidates == proof.pruned_by_memory + proof.pruned_by_bound + proof.simulated + proof.refused
    assert proof.next_bound >= proof.best_s
    assert proof.simulated < proof.candidates / 4
    alike = search.search(even)[0].best
    assert alike is not None
    assert alike.step_time_s >= best


def test_like_groups_share_evenly() -> None:
    space = {"tp": [1], "pp": [2], "cp": [1], "mbs": [1], "recompute": ["none"], "group_axis": ["dp"]}
    found = searched(scenario(H100, H100, space=space, batch=16)).search()[0].best
    assert found is not None
    assert found.plan.batch_shares == (2, 2)


def test_a_group_that_is_much_faster_takes_all_that_it_can() -> None:
    slow = A100 | {
        "device": {
            "id": "slow",
            "name": "slow",
            "vendor": "nvidia",
            "generation": "ampere",
            "kind": "gpu",
            "peak_flop_per_s": {"bf16": 1e12},
            "memory_bytes": 80e9,
            "memory_bytes_per_s": 50e9,
            "num_sms": 108,
            "pcie_bytes_per_s": 25e9,
        }
    }
    space = {"tp": [1], "cp": [1], "mbs": [1], "recompute": ["none"], "pp": [1]}
    found = searched(scenario(H100, slow, space=space, batch=64) | {"plan": {"group_axis": "dp"}}).search()[0].best
    assert found is not None
    assert found.plan.batch_shares == (7, 1)
    space["pp"] = [2]
    found = searched(scenario(H100, slow, space=space, batch=64) | {"plan": {"group_axis": "pp"}}).search()[0].best
    assert found is not None
    assert found.plan.stage_layers == (7, 1)


def test_a_slower_network_between_never_helps_the_best_plan() -> None:
    space = {"tp": [1, 2], "cp": [1], "mbs": [1], "recompute": ["none"]}
    times = []
    for between in ("8 x ethernet-100g", "1 x ethernet-100g", "1 x ethernet-25g"):
        best = searched(scenario(H100, A100, space=space, between=between)).search()[0].best
        assert best is not None
        times.append(best.step_time_s)
    assert times == sorted(times)


def test_memory_of_the_smaller_device_is_kept() -> None:
    wide = {"hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, "num_key_value_heads": 32}
    model = TINY | wide | {"num_hidden_layers": 20}
    space = {"cp": [1], "mbs": [1], "pp": [1], "tp": [1, 2], "recompute": ["none"]}
    plans = [
        api.plan(scenario(A100, other, space=space, between="8 x infiniband-ndr", batch=32) | {"model": model})
        for other in (A100, V100)
    ]
    assert plans[1].best.plan["tp"] == 2
    assert [p.pruned["memory"] > 0 for p in plans] == [False, True]
    assert all(g["memory_fits"] for p in plans for g in p.best.groups)


def test_a_plan_on_groups_says_what_it_gains() -> None:
    space = {"tp": [1, 2], "cp": [1], "mbs": [1], "recompute": ["none"]}
    source = scenario(H100, A100, space=space, batch=48)
    result = api.plan(source, explain=True)
    alone = {f"1 x 8 {device}-sxm-80gb alone": device for device in ("h100", "a100")}
    assert set(result.compared) == {"equal shares of all groups", *alone}
    assert (result.compared["equal shares of all groups"] or 0.0) >= result.best.step_time_s
    only = api.plan(source | {"cluster": H100})
    assert result.compared["1 x 8 h100-sxm-80gb alone"] == only.best.step_time_s
    assert result.to_dict()["compared"]["equal shares of all groups"]["gain"] >= 0
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(render(view(result)))
    text = console.export_text()
    for name, seconds in result.compared.items():
        assert name.capitalize() in text and f"instead: {instead_words(result.best, seconds)}" in text
    again = api.simulate_training(result.scenario, sensitivities=False)
    assert again.step_time_s == result.best.step_time_s == pytest.approx(result.proof.best_s, rel=1e-12)
    written = api.plan(source | {"plan": {"tp": 2, "pp": 1}}, free=True)
    assert written.gain is not None and written.gain >= 0


@pytest.mark.parametrize(
    ("search", "field"),
    [
        ({"objective": "power"}, "search.objective"),
        ({"objective": ["step_time", "tokens_per_s"]}, "search.objective"),
        ({"limits": {"power": 1000}}, "search.limits.power"),
        ({"space": {"nodes": [2, 4]}}, "search.space.nodes"),
    ],
)
def test_what_groups_cannot_be_planned_for_is_said(search: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        api.plan(scenario(H100, A100) | {"search": search})
    assert [p.field for p in caught.value.problems] == [field]


def test_nothing_fits_is_said() -> None:
    huge = TINY | {"hidden_size": 16384, "intermediate_size": 65536, "num_hidden_layers": 64}
    with pytest.raises(Infeasible, match="fits"):
        api.plan(scenario(H100, V100, space={"tp": [1], "cp": [1], "mbs": [1], "pp": [1, 2]}) | {"model": huge})


def test_layers_inside_a_group_are_even_and_fewest_at_the_ends() -> None:
    group_of = np.array([0, 0, 0, 1, 1, 1])
    assert spread((7, 5), group_of) == (2, 2, 3, 2, 2, 1)
    assert spread((6, 4), np.array([0, 1, 0, 1])) == (3, 2, 3, 2)
    assert spread((7, 8), group_of, trim=1) == (2, 2, 3, 4, 3, 1)
    for x in searched(scenario(H100, A100, space={"cp": [1], "mbs": [1], "group_axis": ["pp"]})).space.layouts:
        stages = np.repeat([0, 1], np.array(x.parts) * x.plan.vpp)
        for row in range(len(x.shares)):
            layers = x.written(row, stages).stage_layers
            assert layers is not None and sum(layers) == 8 and min(layers) >= 1


def test_every_layout_shares_the_whole_batch_or_all_layers() -> None:
    for x in searched(scenario(H100, A100 | {"nodes": 2}, space={"cp": [1]})).space.layouts:
        assert isinstance(x, Layout)
        if x.plan.group_axis == "dp":
            assert (x.shares @ np.array(x.parts) * x.plan.mbs == 24).all()
        else:
            assert (x.shares.sum(axis=1) == 8).all()


def test_techniques_that_set_axes_are_refused_by_name() -> None:
    source = scenario(H100, A100, space={"mbs": [1], "tp": [1, 2]}, techniques=[{"redco": {"mesh": 2}}])
    with pytest.raises(BadInput, match="redco: sets sizes of axes"):
        api.plan(source)
    pinned = scenario(H100, A100, space={"mbs": [1], "tp": [2]}, techniques=[{"redco": {"mesh": 2}}])
    assert api.plan(pinned).best.plan["tp"] == 2  # as it would have it
