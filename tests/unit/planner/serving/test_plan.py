"""`plan` with `search.target: serving`: what it answers, shows, writes and refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from windtunnel import api
from windtunnel.cli.main import run
from windtunnel.errors import BadInput, Infeasible
from windtunnel.planner.serving.best_first_search import Proof
from windtunnel.planner.serving.plan_deployment import ServingPlan
from windtunnel.views import plan_serving
from windtunnel.views.plan_serving_labels import thinned
from windtunnel.writers import html

EXAMPLES = sorted((Path(__file__).parents[4] / "examples" / "search").glob("serving-*.yaml"))


def small(**changes: Any) -> dict[str, Any]:
    """Llama-3.1-8B on four H100."""
    data: dict[str, Any] = {
        "schema_version": 1,
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
        "serving": {
            "engine": "vllm",
            "traffic": {"rate_per_s": 12, "num_requests": 200, "input_tokens": 1000, "output_tokens": 100},
            "slo": {"ttft_s": 0.5, "tpot_s": 0.03, "percentile": 0.9},
        },
        "search": {"target": "serving", "slo_at": "central", "space": {"max_num_seqs": [16, 64]}},
    }
    for key, value in changes.items():
        at, *path = data, *key.split("__")
        for part in path[:-1]:
            at = at.setdefault(part, {})
        at[path[-1]] = value
    return data


def planned(**changes: Any) -> ServingPlan:
    result = api.plan(small(**changes))
    assert isinstance(result, ServingPlan)
    return result


def test_fewest_devices_for_a_rate_and_the_scenario_that_serves_it() -> None:
    plan = planned()
    assert plan.objectives == ("devices",), "a stated rate asks for devices"
    again = api.simulate_serving(plan.scenario)
    assert again.slo_met and not again.saturated and again.num_devices == plan.best.values["devices"]
    assert again.slo_attainment == pytest.approx(plan.best.share, abs=0.02)
    assert "search" not in plan.scenario and plan.proof.complete
    one_less = plan.best.values["devices"] - 1
    if one_less:
        with pytest.raises(Infeasible):
            planned(search__limits={"devices": int(one_less)})


def test_more_rate_needs_no_fewer_devices_and_the_upper_end_no_fewer_than_the_central() -> None:
    few, many = planned(serving__traffic__rate_per_s=4), planned(serving__traffic__rate_per_s=40)
    assert few.best.values["devices"] <= many.best.values["devices"]
    sure = planned(search__slo_at="upper")
    assert sure.upper and sure.best.share_upper >= 0.9
    assert sure.best.values["devices"] >= planned().best.values["devices"]


def test_where_the_upper_end_cannot_be_kept_the_answer_says_so() -> None:
    plan = planned(search__slo_at="upper", serving__slo__tpot_s=0.0055, serving__traffic__rate_per_s=1)
    assert not plan.upper and any("upper end" in note for note in plan.notes)
    assert plan.best.share >= 0.9 > plan.best.share_upper


def test_goodput_rises_with_devices_and_the_load_is_the_most_that_holds() -> None:
    whole, half = (planned(search__objective="goodput", search__limits={"devices": n}) for n in (4, 2))
    assert whole.best.values["goodput"] > 1.5 * half.best.values["goodput"]
    more = json.loads(json.dumps(whole.scenario))
    more["serving"]["traffic"]["rate_per_s"] *= 1.25
    assert not api.simulate_serving(more).slo_met


def test_limits_and_pins_are_kept() -> None:
    plan = planned(serving__pools=[{"plan": {"tp": 2}, "limits": {"max_num_batched_tokens": 2048}}])
    told = {(d.plan["tp"], d.plan["max_num_batched_tokens"]) for d in plan.tried}
    assert told == {(2, 2048)}
    fast = planned(search__limits={"tokens_per_s_per_user": 120})
    assert fast.best.values["tokens_per_s_per_user"] >= 120
    with pytest.raises(Infeasible, match="tokens_per_s_per_user"):
        planned(search__limits={"tokens_per_s_per_user": 5000})


def test_money_chooses_the_cheaper_device_and_needs_a_price() -> None:
    space = {"device": ["h100-sxm-80gb", "a100-sxm-80gb"], "max_num_seqs": [64]}
    prices = {"h100-sxm-80gb": 10.0, "a100-sxm-80gb": 1.0}
    a = planned(search__objective="cost_per_hour", search__space=space, search__prices=prices)
    b = planned(
        search__objective="cost_per_hour",
        search__space=space,
        search__prices={"h100-sxm-80gb": 1.0, "a100-sxm-80gb": 10.0},
    )
    assert (a.best.plan["device"], b.best.plan["device"]) == ("a100-sxm-80gb", "h100-sxm-80gb")
    assert a.best.values["cost_per_hour"] == a.best.values["devices"]


@pytest.mark.slow
def test_a_trace_asks_for_devices_and_is_found_beside_its_scenario() -> None:
    file = EXAMPLES[0].parents[1] / "serving" / "trace-qwen3-30b-a3b-2xh100.yaml"
    told = ["search.target=serving", "search.slo_at=central", "search.space.tp=[1,2]", "search.space.max_num_seqs=[64]"]
    plan = api.plan(file, overrides=[*told, "serving.pools=[]"])
    assert isinstance(plan, ServingPlan) and plan.objectives == ("devices",) and plan.load_of == "given"
    assert plan.scenario["serving"]["traffic"]["trace"].startswith("traces/")
    watts = ["search.objective=power", "search.limits.power=900 W", "search.space.pp=[1]"]
    least = api.plan(file, overrides=[*told, *watts, "serving.pools=[]"])
    assert isinstance(least, ServingPlan) and 0 < least.best.values["power"] <= 900


def test_energy_and_power_are_those_of_serve() -> None:
    space = {"tp": [1, 2], "pp": [1], "max_num_batched_tokens": [2048]}
    plan = planned(
        search__objective="energy_per_million_tokens",
        search__space=space,
        serving__traffic={
            "concurrency": 8,
            "num_requests": 100,
            "input_tokens": 500,
            "output_tokens": 50,
        },
    )
    told = plan.result.power["energy_per_output_token_j"] * 1e6
    assert plan.best.values["energy_per_million_tokens"] == pytest.approx(told, rel=0.01)


def test_split_pools_are_written_as_pools_and_simulated_alike() -> None:
    plan = planned(search__space={"deployment": ["disaggregated"], "tp": [1, 2]})
    roles = [p["role"] for p in plan.scenario["serving"]["pools"]]
    assert roles == ["prefill", "decode"] and "decode" in plan.best.plan
    again = api.simulate_serving(plan.scenario)
    assert again.slo_met and again.output_tokens_per_s == pytest.approx(plan.best.values["tokens_per_s"], rel=0.01)


def test_a_traffic_that_rises_and_falls_names_instances_at_both_ends() -> None:
    plan = planned(
        serving__traffic={
            "rate_per_s": 20,
            "num_requests": 400,
            "input_tokens": 1000,
            "output_tokens": 100,
            "process": "diurnal",
            "period_s": 10,
            "peak_to_mean": 2,
        },
        search__space={"tp": [1], "max_num_seqs": [32]},
    )
    trough, peak = plan.instances["trough"], plan.instances["peak"]
    assert trough["rate_per_s"] == 0 and trough["replicas"] == 1 and peak["rate_per_s"] == 40
    assert peak["replicas"] is None or peak["replicas"] >= 1
    assert planned().instances == {}


WAVES = {
    "rate_per_s": 28.75,
    "num_requests": 6000,
    "input_tokens": 1000,
    "output_tokens": 60,
    "process": "diurnal",
    "period_s": 120,
    "peak_to_mean": 1.8,
}


def scaled(start_up_s: float) -> ServingPlan:
    scaler = {"min": 1, "max": 4, "target": 12, "interval_s": 1, "cooldown_s": 5, "start_up_s": start_up_s}
    return planned(serving__traffic=WAVES, serving__autoscale=scaler, search__space={"tp": [1], "max_num_seqs": [64]})


@pytest.mark.slow
def test_bounds_of_an_autoscaler_keep_the_objective_hold_less_and_rise_with_slow_starts() -> None:
    plan = scaled(1.0)
    own, written = plan.autoscale, plan.scenario["serving"]
    assert written["autoscale"] | {"min": own["min"], "max": own["max"]} == written["autoscale"]
    assert 1 <= own["min"] <= own["max"] <= 4 and own["instances_mean"] < own["max"]
    assert own["device_hours"] < own["fixed_device_hours"]
    again = api.simulate_serving(plan.scenario)
    assert again.slo_met and again.scaling["device_hours"] == pytest.approx(own["device_hours"])
    assert scaled(60.0).autoscale["min"] > own["min"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"serving__slo__ttft_s": 0.001}, ("one request alone", "TTFT", "% over", "slo.ttft_s of")),
        (
            {"serving__traffic__rate_per_s": 400, "serving__traffic__num_requests": 4000},
            ("arrive faster than they are served", "at most", "requests/s"),
        ),
        ({"model": "meta-llama/Llama-3.1-405B"}, ("does not fit in memory", "GiB more a device")),
        ({"search__space": {"replicas": [64]}}, ("no number of instances", "an instance takes")),
    ],
)
def test_what_cannot_be_is_explained(changes: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(Infeasible) as error:
        planned(**changes)
    text = str(error.value)
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"search__objective": "step_time"}, ["search.objective"]),
        ({"search__space": {"mbs": [1], "zero": [1]}}, ["search.space.mbs", "search.space.zero"]),
        ({"search__limits": {"step_time": 1}}, ["search.limits.step_time"]),
        ({"search__space": {"concurrency": [4]}}, ["search.space.concurrency"]),
        ({"search__objective": "cost_per_hour", "cluster__device": "l40-48gb"}, ["search.prices.l40-48gb"]),
        ({"techniques": ["nanoflow"]}, ["techniques"]),
        (
            {"serving__autoscale": {"max": 4, "target": 8}, "search__space": {"deployment": ["disaggregated"]}},
            ["search.space.deployment"],
        ),
        (
            {"serving__autoscale": {"max": 4, "target": 8}, "search__objective": "goodput"},
            ["serving.autoscale"],
        ),
        ({"serving__pools": [{"role": "prefill"}, {"role": "decode"}]}, ["serving.pools"]),
        (
            {
                "serving__mesh": {},
                "serving__pools": [
                    {
                        "sm_split": {"prefill_share": 0.5},
                        "kv": {
                            "prefix_caching": True,
                            "lending": True,
                            "tiers": [{"kind": "host", "capacity_bytes": "9 GiB"}],
                            "similar": {"share": 0.5, "matched": 0.5, "recomputed": 0.1},
                        },
                    }
                ],
            },
            [
                "serving.pools[0].kv.tiers",
                "serving.pools[0].kv.lending",
                "serving.pools[0].kv.similar",
                "serving.pools[0].sm_split",
                "serving.mesh",
            ],
        ),
        (
            {"serving__pools": [{"queue": "fcsf", "policy": "vllm_v9"}]},
            ["serving.pools[0].policy", "serving.pools[0].queue"],
        ),
        ({"search__target": "training", "search__space": {"replicas": [2]}}, ["search.space.replicas"]),
        (
            {
                "serving__traffic": {"rate_per_s": 4, "duration_s": 9, "input_tokens": 9, "output_tokens": 9},
                "search__objective": "goodput",
            },
            ["serving.traffic.num_requests"],
        ),
    ],
)
def test_bad_questions_are_refused_by_field(changes: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(BadInput) as error:
        planned(**changes)
    assert [p.field for p in error.value.problems] == fields


def test_an_interrupted_search_returns_the_best_so_far() -> None:
    calls: list[Any] = []

    def stop(progress: Any) -> None:
        calls.append(progress)
        if progress.best is not None:
            raise KeyboardInterrupt

    plan = api.plan(small(search__objective="goodput"), report=stop)
    assert isinstance(plan, ServingPlan) and not plan.proof.complete and plan.proof.open > 0
    assert plan.result.slo_met and plan.proof.next_bound >= plan.best.values["goodput"]


def test_terminal_json_and_html(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page, out = tmp_path / "s.json", tmp_path / "r.html", tmp_path / "best.yaml"
    file.write_text(json.dumps(small()))
    assert run(["plan", str(file), "--html", str(page), "--output", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "Best devices" in shown and "Proof" in shown and "No candidate of the space is better" in shown
    assert "Throughput against speed" in page.read_text() and "/tmp" not in page.read_text()
    assert run(["serve", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["slo_met"]
    assert run(["plan", str(file), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {"best", "frontier", "evaluated", "pruned", "elapsed_s", "proof"} <= {*data}
    assert data["proof"]["complete"] and data["best"]["values"]["devices"] == data["best"]["result"]["num_devices"]
    assert run(["plan", str(file), "--set", "serving.slo.ttft_s=0.001"]) == 3
    assert "nearest miss" in capsys.readouterr().err


def test_whole_prompts_beyond_the_token_budget_are_priced_not_drawn_out() -> None:
    """A policy that does not cut prompts computes them in one iteration, however small its budget."""
    first = []
    for budget in (256, 8192):
        limits = {"max_num_batched_tokens": budget, "max_num_seqs": 8}
        data = small(
            serving__engine="trtllm",
            serving__pools=[{"plan": {"tp": 1}, "limits": limits}],
            serving__traffic={"concurrency": 1, "num_requests": 20, "input_tokens": 6000, "output_tokens": 20},
        )
        first.append(api.simulate_serving(data).ttft_s.p50)
    assert first[0] == pytest.approx(first[1], rel=0.005)


_LONG = (
    "serving-llama3-8b-devices",
    "serving-deepseek-v3-32xh200",
    "serving-qwen3-32b-32xh200",
    "serving-qwen3-30b-a3b-front",
    "serving-qwen3-32b-rate",
)


@pytest.mark.parametrize(
    "file", [pytest.param(f, id=f.stem, marks=[pytest.mark.slow] if f.stem in _LONG else []) for f in EXAMPLES]
)
def test_examples_have_an_answer(file: Path) -> None:
    plan = api.plan(file)
    assert isinstance(plan, ServingPlan) and plan.proof.complete and plan.result.slo_met
    assert html.render(plan_serving.view(plan)).count("<table>") >= 1
    if len(plan.objectives) == 1:
        assert plan.proof.simulated < 0.1 * plan.proof.candidates, "bounds leave little to simulate"
    else:
        values = [[d.values[n] for n in plan.objectives] for d in plan.front]
        for a in values:
            assert not any(b != a and all(x >= y for x, y in zip(b, a, strict=True)) for b in values)
        assert 3 <= len(thinned(plan)) <= len(plan.front)


def test_the_nearest_miss_serves_the_load() -> None:
    """Deployments whose line grows without end are further off than those that answer, however tight the limit."""
    example = next(path for path in EXAMPLES if "32b-rate" in path.name)
    with pytest.raises(Infeasible) as error:
        api.plan(example, overrides=["serving.slo={ttft_s: 0.001}"])
    found = re.search(r"TTFT ([\d.]+) ms", str(error.value).split("nearest miss")[1])
    assert found is not None
    one = api.simulate_serving(example, overrides=["serving.pools=[{plan: {tp: 8}, replicas: 4}]"])
    assert float(found[1]) <= 1.01e3 * one.ttft_s.p90


def test_both_ends_of_the_band_are_shown_with_the_run_that_settles_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes: dict[str, Any] = {
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "serving__traffic__rate_per_s": 40,
        "serving__slo": {"ttft_s": 0.4, "tpot_s": 0.016, "percentile": 0.9},
        "search__slo_at": "upper",
    }
    plan = planned(**changes)
    alone = planned(**{**changes, "search__slo_at": "central"})
    assert plan.ends is not None and alone.ends is None
    assert plan.ends.central_devices == alone.best.values["devices"] < plan.ends.upper_devices
    assert plan.ends.upper_devices == plan.best.values["devices"]
    told = plan.measure_next
    assert told is not None and plan.ends.central_devices <= told.devices_after <= plan.ends.upper_devices
    assert all(told.high_after[n] <= told.high[n] for n in told.high)
    assert any(told.high_after[n] < told.high[n] for n in told.high)
    file = tmp_path / "s.yaml"
    file.write_text(json.dumps(small(**changes)))
    assert run(["plan", str(file)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{plan.ends.central_devices} devices at the central prediction, {plan.ends.upper_devices} at the" in shown
    assert "Measure next" in shown and "--export vllm" in shown
    data = plan.to_dict()
    assert data["ends"]["upper_devices"] == plan.ends.upper_devices and data["measure_next"]["command"] == told.command


def test_where_no_candidate_keeps_the_upper_end_both_ends_say_so() -> None:
    plan = planned(search__slo_at="upper", serving__slo__tpot_s=0.0055, serving__traffic__rate_per_s=1)
    assert plan.ends is not None and plan.ends.upper_devices is None
    assert plan.ends.central_devices == plan.best.values["devices"]


def test_limits_that_the_engine_refuses_are_no_candidates() -> None:
    space = {"max_num_seqs": [16, 1024], "max_num_batched_tokens": [512, 2048], "tp": [1]}
    plan = planned(search__space=space)
    assert plan.proof.refused == plan.proof.candidates // 4, "1,024 sequences at 512 tokens"
    assert plan.best.plan["max_num_batched_tokens"] >= plan.best.plan["max_num_seqs"]
    with pytest.raises(BadInput):
        planned(search__space={"max_num_seqs": [1024], "max_num_batched_tokens": [512]})


@pytest.mark.parametrize("slo_at", ["central", "upper"])
def test_a_deadline_that_has_passed_leaves_the_best_of_the_first_few(slo_at: str) -> None:
    result = api.plan(small(search__slo_at=slo_at, search__space={"tp": [1, 2]}), time_limit_s=0.0)
    assert isinstance(result, ServingPlan)
    assert result.stopped == "time" and not result.proof.complete
    told = result.to_dict()
    assert told["stopped"] == "time" and told["gap"] is None and told["best"]["plan"]["tp"] in (1, 2)
    again = api.simulate_serving(result.scenario)
    assert again.slo_met and not again.saturated


def test_the_gap_is_how_much_better_an_open_candidate_could_be() -> None:
    proof = Proof(candidates=4, open=1, best=8.0, next_bound=10.0)
    assert proof.gap == pytest.approx(0.25)
    assert Proof(candidates=4, best=8.0).gap == 0.0
    assert Proof(candidates=4, best=8.0, next_bound=10.0, open=1, unscreened=True).gap is None


def test_axes_that_were_searched_and_those_that_stood_still() -> None:
    told = planned(search__space={"tp": [1, 2], "max_num_seqs": [16, 64]}).to_dict()
    assert told["searched"]["tp"] == [1, 2] and told["searched"]["max_num_seqs"] == [16, 64]
    assert told["not_searched"]["engine"].startswith("vllm: ") and "dp" in told["not_searched"]
    assert told["gap"] == 0.0 and told["stopped"] is None
    assert not told["searched"].keys() & told["not_searched"].keys()
