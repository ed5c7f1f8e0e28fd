"""`plan` as a user meets it: JSON keys, files, what cannot be, and what is spelt wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.errors import BadInput, Infeasible
from windtunnel.planner.plan_one_cluster import case_of
from windtunnel.planner.question import question_of
from windtunnel.planner.space.candidates import Candidates, divisors, enumerate_candidates
from windtunnel.scenarios.load import load
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.search import recompute_of

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 16, "framework": "nemo"},
    "search": {"space": {"tp": [1, 2], "pp": [1, 2], "cp": [1], "mbs": [1, 2]}},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "s.yaml"
    target.write_text(yaml.safe_dump(SCENARIO))
    return target


def test_json_has_the_contracts_keys(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {"best", "frontier", "evaluated", "pruned", "elapsed_s", "proof"} <= set(data)
    proof = data["proof"]
    assert proof["complete"] and proof["gap"] == 0.0
    counted = sum(data["pruned"].values()) + data["evaluated"]
    assert counted == proof["candidates"] > 10
    fit = [r["step_time_s"] for r in data["frontier"] if r["fits"]]
    assert data["best"]["step_time_s"] == proof["best_s"] == min(fit)


def test_the_written_scenario_trains(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best = tmp_path / "best.yaml"
    assert run(["plan", str(path), "--output", str(best)]) == 0
    assert "nothing in the space is faster" in " ".join(capsys.readouterr().out.split())
    assert run(["train", str(best), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["memory_fits"] and result["step_time_s"] == api.plan(SCENARIO).proof.best_s
    assert run(["plan", str(path), "--output", str(path)]) == 2  # never over its own input


def test_an_axis_set_in_plan_is_kept() -> None:
    result = api.plan({**SCENARIO, "plan": {"mbs": 2}, "search": {"space": {"tp": [1, 2], "cp": [1]}}})
    assert {r.plan["mbs"] for r in result.frontier} == {2}
    assert result.best.plan["mbs"] == 2


def test_nothing_fits_names_the_nearest() -> None:
    with pytest.raises(Infeasible, match=r"none of .* plans fits .*; nearest miss: .* GiB with tp"):
        api.plan(SCENARIO, overrides=("search.limits.memory_fraction=0.1",))
    with pytest.raises(Infeasible, match="tp · cp · pp divides the devices"):
        api.plan(SCENARIO, overrides=("search.space.tp=[3]",))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("search.space.tpp=[1]", "tpp"),
        ("search.space.tp=[0]", "greater than 0"),
        ("search.space.tp=2", r"search.space.tp = 2: must be a list, such as \[2\]"),
        ("search.space=none", r"search.space = none: must be a mapping"),
        ("training.precision=tf32", r"training.precision = tf32: tpu-v5p has no rate for it.*; it has bf16, fp8, int8"),
        ("search.space.recompute=[some]", "none, selective or full"),
        ("search.objective=speed", "objective"),
        ("search.space.nodes=[0]", r"search.space.nodes.0 = 0: must be greater than 0"),
        ("search.space.zero=[4]", "at most 3"),
        ("search.space.offload_params=[1.5]", "at most 1"),
        ("search.space.order=[[tp,dp]]", "must name tp, cp, dp and pp"),
        ("search.space.nodes=[]", "must list at least one value"),
        ("search.space.device=[h100-sxm-80gb,h1000]", r"search.space.device = h1000: .*did you mean"),
        ("search.space.schedule=[1g1b]", r"search.space.schedule = 1g1b: no such schedule; .*did you mean '1f1b'"),
        ("search.space.precision=[fp7]", "precision"),
        ("search.space.group_axis=[dp]", r"search.space.group_axis = .*needs a heterogeneous cluster"),
        ("search.objective=[cost,cost]", "two or three different"),
        ("search.objective=time_to_tokens", r"search.tokens: is needed for time_to_tokens"),
        ("search.limits.cost=100", r"search.tokens: is needed for cost"),
        ("search.prices.h10=3", r"search.prices.h10.* did you mean"),
        ("search.limits.days=3", "days"),
        ("search.limits.memory_fraction=1.5", "memory_fraction"),
    ],
)
def test_bad_searches_are_refused(setting: str, message: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = ("cluster.device=tpu-v5p",) if "tf32" in setting else ()
    with pytest.raises(BadInput, match=message):
        api.plan(SCENARIO, overrides=(setting, *elsewhere))
    more = [word for each in elsewhere for word in ("--set", each)]
    assert run(["plan", str(path), "--set", setting, *more]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_missing_price_says_which_device_and_how_to_give_it() -> None:
    asked = {"objective": "cost_per_million_tokens", "space": {"device": ["h100-sxm-80gb", "mi300x"]}}
    with pytest.raises(
        BadInput, match=r"search.prices.mi300x: .*no price of mi300x is known; give search.prices: \{mi"
    ):
        api.plan({**SCENARIO, "search": asked})


def test_all_problems_of_a_search_are_reported_at_once() -> None:
    wrong = {
        **SCENARIO,
        "model": "llama-9",
        "techniques": ["magic"],
        "search": {
            "objective": ["cost", "step_time"],
            "space": {"device": ["h1000"], "schedule": ["1g1b"]},
            "prices": {"b2000": 3},
        },
    }
    with pytest.raises(BadInput) as caught:
        api.plan(wrong)
    fields = " ".join(p.field for p in caught.value.problems)
    for field in ("model", "techniques", "search.tokens", "search.space.device", "search.space.schedule", "prices"):
        assert field in fields


def test_devices_nodes_and_precision_are_chosen_together() -> None:
    space = {**SCENARIO["search"]["space"], "nodes": [1, 2], "device": ["h100-sxm-80gb", "a100-sxm-80gb"]}
    search = {
        "objective": ["cost", "time_to_tokens"],
        "tokens": "1T",
        "prices": {"a100-sxm-80gb": 1.2},
        "space": {**space, "precision": ["bf16", "fp8"]},
    }
    result = api.plan({**SCENARIO, "search": search})
    assert result.excluded["a100-sxm-80gb has no fp8 rate, which precision fp8 needs"] == 2
    assert result.objectives == ("cost", "time_to_tokens") and len(result.front) >= 2
    costs = [r.values["cost"] for r in result.front]
    times = [r.values["time_to_tokens"] for r in result.front]
    assert costs == sorted(costs) and times == sorted(times, reverse=True) and len({*costs}) == len(costs)
    first = result.front[0]
    device, nodes = result.scenario["cluster"]["device"], result.scenario["cluster"]["nodes"]
    assert (first.cluster, first.precision) == (
        {"device": device, "nodes": nodes},
        result.best.scenario["training"].get("precision", "bf16"),
    )
    again = api.simulate_training(result.scenario, sensitivities=False)
    assert again.step_time_s == result.proof.best_s
    assert again.cost_per_million_tokens == pytest.approx(result.proof.best / 1e6, rel=1e-12)
    assert json.loads(json.dumps(result.to_dict(), default=str))["front"][0]["values"]["cost"] == costs[0]


def test_fewest_devices_for_a_deadline() -> None:
    search = {
        "objective": "devices",
        "limits": {"time_to_tokens": "100 d"},
        "tokens": 2e11,
        "space": {**SCENARIO["search"]["space"], "nodes": [1, 2, 4]},
    }
    result = api.plan({**SCENARIO, "search": search})
    assert result.proof.best == result.best.num_devices == 8
    sooner = api.plan({**SCENARIO, "search": search}, overrides=("search.limits.time_to_tokens=12 d",))
    assert sooner.best.num_devices > 8 and sooner.pruned["time_to_tokens"] > 0
    assert sooner.frontier[0].values["time_to_tokens"] <= 12 * 86400


def test_each_limit_that_cannot_be_kept_has_its_nearest_miss() -> None:
    search = {"limits": {"time_to_tokens": "1 h", "memory_headroom": "79 GiB"}, "tokens": 1e12}
    with pytest.raises(Infeasible) as caught:
        api.plan({**SCENARIO, "search": {**SCENARIO["search"], **search}})
    text = str(caught.value)
    assert re.search(r"time_to_tokens at most 1 h: 1\d\d.* d, no other limit kept, with tp", text)
    assert re.search(r"memory_headroom at least 79 GiB: 5\d.* GiB, no other limit kept, with tp", text)
    search["limits"]["memory_headroom"] = "1 GiB"  # type: ignore[index]
    with pytest.raises(Infeasible, match=r"time_to_tokens at most 1 h: 1\d\d.* d, the other limits kept, with tp .*"):
        api.plan({**SCENARIO, "search": {**SCENARIO["search"], **search}})


def test_a_plan_that_the_simulator_refuses_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"plan.recompute.modules = foo: must be one of"):
        api.plan({**SCENARIO, "plan": {"recompute": {"policy": "modules", "modules": ["foo"]}}})
    with pytest.raises(BadInput, match=r"plan.stage_layers"):
        api.plan({**SCENARIO, "plan": {"pp": 2, "stage_layers": [10, 10]}})


def test_a_named_cluster_with_another_price_is_spelt_out_by_catalogue_ids() -> None:
    search = {**SCENARIO["search"], "objective": "cost_per_million_tokens", "prices": {"H100": 2.0}}
    result = api.plan({**SCENARIO, "cluster": "dgx-h100", "search": search})
    cluster = result.scenario["cluster"]
    assert (cluster["device"], cluster["scale_up"], cluster["price_per_device_hour"]) == (
        "h100-sxm-80gb",
        "nvlink4",
        2.0,
    )
    plain = api.simulate_training({**result.scenario, "cluster": "dgx-h100"}, sensitivities=False)
    assert plain.step_time_s == result.best.step_time_s and plain.cost_per_million_tokens is not None
    assert result.proof.best == pytest.approx(plain.cost_per_million_tokens * 2.0 / 2.95)
    more = api.plan(
        {**SCENARIO, "cluster": "dgx-h100", "search": {"space": {**SCENARIO["search"]["space"], "nodes": [2]}}}
    )
    assert more.scenario["cluster"] == "2 x dgx-h100"


def test_progress_is_told(path: Path) -> None:
    told: list[Any] = []
    result = api.plan(str(path), report=told.append)
    assert [(p.candidates, p.screened, p.best) for p in told[:2]] == [
        (result.proof.candidates, 0, None),
        (result.proof.candidates, result.proof.candidates, None),
    ]
    assert told[0].simulated == told[1].simulated == 0
    assert told[-1].simulated == result.evaluated and told[-1].best == result.proof.best
    assert told[-1].next_bound is not None


def space_of(**search_space: Any) -> Candidates:
    scenario = Scenario.model_validate({**SCENARIO, "search": {"space": search_space}})
    case, wanted = case_of(scenario)
    return enumerate_candidates(case.model, case.cluster, case.training, scenario.plan, wanted, case.behaviour)


def test_hybrid_attention_is_cut_every_way_that_is_neither_kind_alone() -> None:
    x = space_of(
        tp=[1], pp=[1], mbs=[1], zero=[1], cp=[1, 4, 8], cp_kind=["ring", "all_to_all", "hybrid"], recompute=["none"]
    )
    legal = [(int(x.cp[i]), x.policies[j].cp_kind, x.policies[j].cp_all_to_all) for i, j in np.argwhere(x.legal)]
    assert sorted(legal) == [
        (1, "ring", 1),
        (4, "all_to_all", 1),
        (4, "hybrid", 2),
        (4, "ring", 1),
        (8, "all_to_all", 1),
        (8, "hybrid", 2),
        (8, "hybrid", 4),
        (8, "ring", 1),
    ]
    assert x.plan(0, 0).cp_all_to_all == 1
    only = space_of(tp=[1], cp=[1, 2], cp_kind=["hybrid"], recompute=["none"])
    assert {int(only.cp[i]) for i, _ in np.argwhere(only.legal)} == {1, 2}


def test_switches_that_cannot_run_are_counted_by_rule() -> None:
    x = space_of(tp=[8], cp=[1], pp=[1], shard_group=[3], recompute=["none"], zero=[1])
    assert not x.count and x.excluded["shard_group divides dp · cp and is smaller"] == len(x.tp)
    x = space_of(tp=[1], cp=[8], pp=[1], cp_kind=["hybrid"], cp_all_to_all=[3, 4], recompute=["none"], zero=[1])
    assert x.excluded["cp_all_to_all divides cp"] == len(x.tp) == x.count
    x = space_of(tp=[1], cp=[1], pp=[2], vpp=[2], mbs=[4], schedule=["interleaved_1f1b"], recompute=["none"])
    assert x.excluded["the schedule can run pp, vpp and the micro-batches"] > 0


def test_resharding_counts_only_where_parameters_are_sharded() -> None:
    x = space_of(tp=[1], cp=[1], pp=[1], mbs=[1], zero=[1, 3], reshard_after_forward=[True, False], recompute=["none"])
    found = [(x.policies[j].zero, x.policies[j].reshard_after_forward) for _, j in np.argwhere(x.legal)]
    assert sorted(found, key=str) == [(1, None), (3, False), (3, True)]


def test_experts_are_whole_or_cut_as_the_rest() -> None:
    scenario = Scenario.model_validate({**SCENARIO, "model": "mistralai/Mixtral-8x7B-v0.1", "search": {}})
    case, wanted = case_of(scenario)
    x = enumerate_candidates(case.model, case.cluster, case.training, scenario.plan, wanted, case.behaviour)
    assert {(int(a), int(b)) for a, b in zip(x.tp, x.etp, strict=True)} == {
        (1, 1),
        (2, 1),
        (2, 2),
        (4, 1),
        (4, 4),
        (8, 1),
        (8, 8),
    }


@pytest.mark.parametrize(("name", "number"), [("cheapest-device-8b", 12), ("fewest-devices-70b", 16)])
def test_examples_ask_for_several_clusters(name: str, number: int) -> None:
    scenario, lines, folder = load(Path(__file__).parents[3] / "examples" / "search" / f"{name}.yaml")
    question = question_of(scenario, folder, lines)
    assert (
        len(question.variants)
        == number
        == len({v.case.cluster.name + v.case.training.precision for v in question.variants})
    )
    assert not question.left_out


def test_values_of_axes() -> None:
    assert divisors(12) == [1, 2, 3, 4, 6, 12]
    assert (recompute_of("full:4").policy, recompute_of("full:4").num_layers) == ("full", 4)


def test_the_best_plan_is_written_as_launch_files(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "launch"
    assert run(["plan", str(path), "--json", "--export", "megatron", "--export-dir", str(out)]) == 0
    data = json.loads(capsys.readouterr().out)
    script = (out / "megatron.sh").read_text("utf-8")
    assert f"--tensor-model-parallel-size {data['best']['plan']['tp']}" in " ".join(script.split())
    assert run(["plan", str(path), "--wrapper", "slurm"]) == 2  # says how, but not what


def test_a_free_search_says_how_far_the_written_plan_is() -> None:
    slow = {**SCENARIO, "plan": {"tp": 8, "mbs": 1, "zero": 1, "recompute": {"policy": "full"}}, "search": {}}
    result = api.plan(slow, free=True)
    assert result.written is not None and result.gain is not None
    assert result.written.plan["tp"] == 8 and result.best.plan["tp"] != 8
    assert result.best.step_time_s == pytest.approx(result.written.step_time_s * (1 - result.gain))
    assert result.gain > 0.1
    again = api.plan({**SCENARIO, "plan": result.scenario["plan"], "search": {}}, free=True)
    assert again.gain == 0.0  # the best plan is its own best
    assert api.plan(slow, free=False).best.plan["tp"] == 8  # what the plan sets is kept
