"""`windtunnel reason`: fronts, answers, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.errors import BadInput, Infeasible
from windtunnel.programs.answers import accuracy_at_cost, break_even, cheapest_model, cost_of_accuracy, verifier_worth
from windtunnel.programs.charts import break_even_chart
from windtunnel.programs.front import best_of, figure, on_front

SCENARIO: dict[str, Any] = {
    "name": "samples",
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
    "programs": {
        "strategy": {"best_of_n": {"n": [1, 4], "selector": "checker"}},
        "problems": 20,
        "offline": True,
        "input_tokens": 100,
        "output_tokens": 50,
    },
    "population": {"beta": {"a": 0.3, "b": 1.2}},
}


def scenario(**changes: Any) -> dict[str, Any]:
    programs = {**SCENARIO["programs"], **changes.pop("programs", {})}
    return {**SCENARIO, "programs": {k: v for k, v in programs.items() if v is not None}, **changes}


def test_samples_of_a_checker_have_the_accuracy_of_the_closed_form() -> None:
    result = api.simulate_programs(scenario())
    one, four = result.points
    assert one.accuracy is not None and four.accuracy is not None
    assert one.accuracy.mean == pytest.approx(0.2, rel=1e-6)
    expected = 1.0
    for j in range(4):
        expected *= (1.2 + j) / (1.5 + j)
    assert four.accuracy.mean == pytest.approx(1 - expected, abs=1e-4)
    assert one.calls == 1 and four.calls == 4
    assert four.tokens == 4 * one.tokens == 200
    assert four.cached_tokens > 0 == one.cached_tokens
    assert four.latency_s["p50"] > one.latency_s["p50"]
    assert result.best == four
    assert {f for f, _, _ in result.assumed} >= {"serving.plan", "serving.replicas"}


def test_one_attempt_is_plain_serving() -> None:
    point = api.simulate_programs(scenario(programs={"strategy": {"best_of_n": {"n": 1}}})).points[0]
    plain = {
        **{k: v for k, v in SCENARIO.items() if k not in ("programs", "population")},
        "serving": {
            "pools": [{"plan": {"tp": 1}, "replicas": 2}],
            "traffic": {"offline": True, "num_requests": 20, "input_tokens": 100, "output_tokens": 50},
        },
    }
    served = api.simulate_serving(plain)
    assert point.latency_s["p50"] == pytest.approx(served.e2e_s.p50, rel=1e-12)
    assert point.latency_s["mean"] == pytest.approx(served.e2e_s.mean, rel=1e-12)


def test_limits_choose_the_best_that_keeps_them() -> None:
    free = api.simulate_programs(scenario())
    limit = free.points[0].latency_s["p99"] * 1.01
    kept = api.simulate_programs(scenario(search={"objective": "accuracy", "limits": {"latency_p99_s": limit}}))
    assert kept.best is not None and kept.best.n == 1
    none = api.simulate_programs(scenario(search={"objective": "cost_per_task", "limits": {"accuracy": 0.99}}))
    assert none.best is None


def test_the_front_leaves_out_what_others_beat() -> None:
    points = api.simulate_programs(
        scenario(programs={"strategy": {"best_of_n": {"n": [1, 4], "selector": ["checker", "random"]}}})
    ).points
    shown = {(p.knobs["n"], p.knobs["selector"]): on for p, on in zip(points, on_front(points), strict=True)}
    assert shown[(1, "checker")] and shown[(4, "checker")]
    assert not shown[(4, "random")]
    best = best_of(points, "cost_per_task", {})
    assert best is not None and figure(best, "cost_per_task") == min(p.cost_usd or 1e9 for p in points)


def test_rates_choose_as_many_problems_a_second() -> None:
    point = api.simulate_programs(scenario(programs={"offline": None, "rate_per_s": 2.0, "problems": 40})).points[0]
    assert point.problems_per_s == pytest.approx(2.0, rel=0.5)
    assert point.capacity_problems_per_s is None


def test_break_even_follows_from_prices_alone() -> None:
    api_price = {"input": 1.0, "output": 4.0}
    result = api.simulate_programs(scenario(programs={"api_price": api_price}))
    even = result.answers["break_even"][0]
    point = result.points[0]
    usd = (100 * 1.0 + 50 * 4.0) / 1e6
    assert even["api_usd_a_problem"] == pytest.approx(usd)
    assert even["tokens_a_day"] == pytest.approx(50 * (point.usd_per_day or 0) / usd)
    low, high = (even["share_of_capacity_interval"][k] for k in ("low", "high"))
    assert low < even["share_of_capacity"] < high
    assert break_even(point, result_price(0.0)) is None
    assert break_even_chart(result) is not None
    assert break_even_chart(api.simulate_programs(scenario())) is None


def result_price(value: float) -> Any:
    from windtunnel.specs.programs import ApiPriceSpec

    return ApiPriceSpec(input=value, output=value)


def test_costs_between_candidates_are_interpolated() -> None:
    points = api.simulate_programs(scenario()).points
    stairs = accuracy_at_cost(points)
    assert [s["label"] for s in stairs] == [p.label for p in points]
    middle = cost_of_accuracy(points, 0.5 * (stairs[0]["accuracy"] + stairs[1]["accuracy"]))
    assert middle == pytest.approx((stairs[0]["cost_usd"] * stairs[1]["cost_usd"]) ** 0.5)
    assert cost_of_accuracy(points, 0.99) is None
    assert verifier_worth(points) == []
    assert cheapest_model(points) == []


def test_models_are_compared_where_both_have_populations() -> None:
    models = [{"model": "meta-llama/Llama-3.1-8B"}, {"model": "Qwen/Qwen3-0.6B"}]
    populations = {
        "meta-llama/Llama-3.1-8B": {"beta": {"a": 0.3, "b": 0.7}},
        "Qwen/Qwen3-0.6B": {"beta": {"a": 0.2, "b": 0.8}},
    }
    result = api.simulate_programs(scenario(programs={"models": models}, population={"models": populations}))
    assert len(result.points) == 4
    assert {p.model for p in result.points} == set(populations)
    assert all(len(s["cost_usd"]) == 2 for s in result.answers["cheapest_model"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"programs": {"strategy": "best_of_m"}}, ["programs.strategy", "best_of_n"]),
        ({"programs": {"strategy": {"best_of_n": {"m": 3}}}}, ["programs.strategy.best_of_n.m", "unknown knob"]),
        ({"programs": {"strategy": {"best_of_n": {"n": 0}}}}, ["best_of_n.n", "1 to 100000"]),
        ({"programs": {"strategy": None}}, ["strategies is required"]),
        ({"programs": {"offline": None}}, ["rate_per_s", "is required"]),
        ({"programs": {"rate_per_s": 1}}, ["exclude each other"]),
        ({"programs": {"models": [{"model": "Qwen/Qwen3-0.6B"}]}, "population": {"models": {"x": {"pass_1": 0.5}}}},
         ["population.models.Qwen/Qwen3-0.6B", "is required"]),
        ({"population": None}, ["population", "is required"]),
        ({"search": {"objective": "step_time"}}, ["search.objective", "accuracy"]),
        ({"search": {"objective": "accuracy", "limits": {"days": 3}}}, ["limits.days", "no limit of target programs"]),
        ({"programs": {"verifier": {"true_accept": 0.9}}}, ["verifier.false_accept", "both"]),
        ({"programs": {"hold_s": 3}}, ["hold_s", "pause: hold"]),
        ({"programs": {"strategy": {"best_of_n": {"n": []}}}}, ["best_of_n.n", "at least one value"]),
        ({"programs": {"strategy": {"best_of_n": {}, "beam": {}}}}, ["must be one strategy", "best_of_n, beam"]),
        ({"programs": {"strategy": {"best_of_n": {"n": 10**9}}}}, ["best_of_n.n", "1 to 100000"]),
        ({"programs": {"strategy": {"best_of_n": {"n": float("nan")}}}}, ["best_of_n.n", "whole number"]),
        ({"programs": {"verifier": {"output_tokens": 0}}}, ["verifier.output_tokens", "at least 1"]),
        ({"programs": {"verifier": {"input_tokens": -5}}}, ["verifier.input_tokens", "at least 0"]),
        ({"programs": {"strategy": {"best_of_n": {"selector": "verifier"}}, "verifier": {"model": "no/such"}}},
         ["programs.verifier.model = no/such"]),
        ({"programs": {"models": [{"model": "Qwen/Qwen3-0.6B", "replicas": 99}]}},
         ["programs.models[0].replicas = 99"]),
        ({"programs": {"plans": [{"tp": 0}]}}, ["programs.plans.0.tp"]),
        ({"programs": {"plans": [{"tp": 3}]}}, ["programs.plans (tp=3)", "num_attention_heads"]),
        ({"programs": {"tools": {"x": {"seconds": 1, "result_tokens": -3}}}}, ["tools.x.result_tokens", "at least 0"]),
        ({"programs": {"roles": {"verifier": {"model": "x"}}}}, ["roles.verifier", "is taken"]),
        ({"programs": {"problems": 10**9}}, ["programs.problems", "of memory"]),
    ],
)  # fmt: skip
def test_bad_input_is_told_in_one_line_each(changes: dict[str, Any], words: list[str]) -> None:
    asked = {k: v for k, v in scenario(**changes).items() if v is not None}
    with pytest.raises(BadInput) as caught:
        api.simulate_programs(asked)
    for word in words:
        assert word in str(caught.value)


def test_plans_that_heads_do_not_allow_are_left_out_of_auto() -> None:
    cluster = {**SCENARIO["cluster"], "devices_per_node": 8}
    result = api.simulate_programs(scenario(model="Qwen/Qwen2.5-1.5B", cluster=cluster, programs={"plans": "auto"}))
    assert {p.method.rpartition(", ")[2] for p in result.points} == {"tp=1", "tp=2", "tp=4"}  # of 12 heads


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(Infeasible):
        api.simulate_programs(scenario(model="meta-llama/Llama-3.1-405B"))


def test_the_lowest_confidence_has_the_law_of_its_groups() -> None:
    from windtunnel.programs.strategies.early_stop import drawn_lowest, lowest_confidence

    right, groups = np.arange(40_000) % 2 == 0, np.full(40_000, 11)
    grouped = lowest_confidence(right, groups, 0.55, 0.5, np.random.default_rng(1))[1]
    alone = drawn_lowest(right, groups, 0.55, 0.5, np.random.default_rng(2))
    for share in (0.05, 0.5, 0.95):
        assert np.quantile(alone, share) == pytest.approx(np.quantile(grouped, share), abs=0.03)


def test_flop_and_bytes_of_a_problem_follow_from_its_tokens() -> None:
    """A fixed prompt of 100 and answers of 50 tokens: products, pairs and bytes read add up by hand."""
    one = api.simulate_programs(scenario(programs={"strategy": {"best_of_n": {"n": 1}}})).points[0]
    hidden, layers, heads, wide, kv, vocab, inner = 4096, 32, 32, 128, 8, 128256, 14336
    a_layer = 2 * hidden * wide * (heads + kv) + 3 * hidden * inner
    linear = 2.0 * (layers * a_layer + hidden * vocab)
    pairs = (100**2 + 50**2) / 2 + 50 * 100
    assert one.flop == pytest.approx(linear * 150 + 4.0 * layers * heads * wide * pairs, rel=1e-3)
    assert one.read_bytes == pytest.approx(2 * layers * kv * wide * 2 * (50 * 100 + 50 * 50 / 2), rel=1e-6)
    assert one.eflop == pytest.approx(one.flop + one.read_bytes * 989.4e12 / 3.35e12, rel=1e-2)


def test_model_sizes_by_a_cost_law_stand_in_the_order_of_their_budgets() -> None:
    models = [{"model": "meta-llama/Llama-3.1-8B"}, {"model": "Qwen/Qwen3-0.6B"}]
    populations = {
        "meta-llama/Llama-3.1-8B": {"beta": {"a": 0.3, "b": 0.7}},
        "Qwen/Qwen3-0.6B": {"beta": {"a": 0.2, "b": 0.8}},
    }
    result = api.simulate_programs(scenario(programs={"models": models}, population={"models": populations}))
    steps = result.answers["accuracy_at_eflop"]
    assert [s["eflop"] for s in steps] == sorted(s["eflop"] for s in steps)
    assert [s["accuracy"] for s in steps] == sorted(s["accuracy"] for s in steps)
    assert steps[0]["model"] == "Qwen/Qwen3-0.6B"


def test_dollars_and_joules_are_those_of_all_devices_over_the_run() -> None:
    """By hand: price times devices times span, mean watts times devices times span, over the problems."""
    cluster = {**SCENARIO["cluster"], "price_per_device_hour": 3.6}
    fields = scenario(cluster=cluster, programs={"output_tokens": 2000})  # beside which the client's 15 ms are nothing
    for point in api.simulate_programs(fields).points:
        (served,) = point.serving.values()
        span_s = 20 / point.problems_per_s
        assert point.cost_usd == pytest.approx(span_s * 2 * 3.6 / 3600 / 20, rel=1e-12)
        assert point.energy_j == pytest.approx(served["mean_w_per_device"] * 2 * span_s / 20, rel=0.02)
        for name, value in (("energy_j", point.energy_j), ("cost_usd", point.cost_usd)):
            band = point.intervals[name]
            assert band is not None and band["low"] < (value or 0.0) < band["high"]


def test_calls_that_are_taken_back_before_they_begin_count_nowhere() -> None:
    limits = {"pools": [{"replicas": 2, "limits": {"max_num_seqs": 1}}]}
    given = {"strategy": {"first_accept": {"n": 8, "by": "checker"}}, "output_tokens": 30}
    point = api.simulate_programs(scenario(programs=given, serving=limits)).points[0]
    assert 1 <= point.calls < 8
    assert point.prompt_tokens == pytest.approx(100 * point.calls)


def test_one_candidate_that_cannot_be_served_stops_no_other() -> None:
    pools = [{"role": "prefill", "replicas": 1}, {"role": "decode", "replicas": 1}]
    both = {"strategy": None, "strategies": [{"best_of_n": {"n": 2}}, {"first_accept": {"n": 2, "by": "checker"}}]}
    result = api.simulate_programs(scenario(programs=both, serving={"pools": pools}))
    assert [p.strategy for p in result.points] == ["best_of_n"]
    assert "needs pools of role mixed" in result.refused[0]["why"]
    with pytest.raises(BadInput, match="needs pools of role mixed"):
        api.simulate_programs(
            scenario(programs={"strategy": {"first_accept": {"n": 2, "by": "checker"}}}, serving={"pools": pools})
        )


def test_where_every_call_is_rejected_nothing_is_told() -> None:
    """Not a free and instant answer: once the joins of rejected calls were taken for ends."""
    with pytest.raises(BadInput, match="longer than max_model_len"):
        api.simulate_programs(scenario(programs={"system_tokens": 10_000_000}))


def test_models_of_one_name_are_told_apart() -> None:
    models = [{"model": "Qwen/Qwen3-0.6B"}, {"model": "Qwen/Qwen3-0.6B", "plan": {"tp": 2}}]
    result = api.simulate_programs(scenario(programs={"models": models}))
    assert {p.model for p in result.points} == {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B (tp=2)"}
