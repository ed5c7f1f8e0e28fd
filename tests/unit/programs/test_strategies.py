"""Strategies as graphs of calls: what they add for each problem, and that one attempt is one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.errors import BadInput, ProblemList
from windtunnel.population.beta import Beta
from windtunnel.programs.attempt_lengths import attempt_lengths
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built
from windtunnel.programs.votes import certain_after, labels, leaders, likely_after, settled_after, winner_right
from windtunnel.programs.workload import Workload, drawn_difficulty
from windtunnel.serving.traffic.program_graph import CALL, JOINT, ProgramGraph
from windtunnel.specs.programs import ProgramsSpec
from windtunnel.techniques.knobs import with_defaults

PROBLEMS = 40
POINTS = Beta(0.4, 0.6).points(400)
SINGLE = {
    "best_of_n": {"n": 1},
    "first_accept": {"n": 1},
    "early_stop": {"n": 1},
    "beam": {"n": 1},
    "rebase": {"n": 1},
    "revision": {"rounds": 0},
    "budget_forcing": {},
    "solve_verify": {"n": 1},
    "compute_optimal": {"n": 1, "bins": 1},
    "multilingual_sampling": {"n": 1},
    "backtrack": {"n": 1, "budget": 10**9},
}
"""Knobs under which a strategy is one attempt."""


def work(spec: ProgramsSpec | None = None, **quality: Any) -> Workload:
    laws = attempt_lengths(None, None, None)
    return Workload(
        spec=spec or ProgramsSpec(strategy="best_of_n", offline=True, problems=PROBLEMS),
        p=drawn_difficulty(POINTS, PROBLEMS, 0),
        prompt_tokens=np.full(PROBLEMS, 100),
        lengths=laws,
        quality=Quality(points=POINTS, attempts=laws, **quality),
        seed=0,
    )


def knobs_of(id: str, given: dict[str, Any]) -> dict[str, Any]:
    problems = ProblemList()
    strategy = STRATEGIES.get(id)
    knobs = with_defaults(strategy.knobs, given, id, problems)
    strategy.check(knobs, problems, id)
    problems.raise_if_any()
    return knobs


def drawn(id: str, spec: ProgramsSpec | None = None, **given: Any) -> tuple[ProgramGraph, Built]:
    graph = ProgramGraph(np.zeros(PROBLEMS))
    return graph, STRATEGIES.get(id).build(graph, work(spec), knobs_of(id, given))


def calls(graph: ProgramGraph) -> int:
    return int((graph["kind"] == CALL).sum())


@pytest.mark.parametrize("id", sorted(SINGLE))
def test_one_attempt_is_one_call_with_the_same_tokens(id: str) -> None:
    plain = drawn("best_of_n", n=1)[0].finish().requests
    single = drawn(id, **SINGLE[id])[0].finish().requests
    assert len(single) == PROBLEMS
    assert (single.input_tokens == plain.input_tokens).all()
    assert (single.output_tokens == plain.output_tokens).all()


LONG = ("compute_optimal", "long_horizon")


@pytest.mark.parametrize(
    "id",
    [pytest.param(id, marks=pytest.mark.slow if id in LONG else ()) for id, _ in STRATEGIES.items() if id != "graph"],
)
def test_every_problem_ends_and_equal_seeds_give_equal_programs(id: str) -> None:
    tools = STRATEGIES.get(id).tools
    spec = ProgramsSpec(strategy=id, offline=True, problems=PROBLEMS, tools={name: {"seconds": 1.0} for name in tools})
    graph, built = drawn(id, spec)
    assert built.ends.shape == (PROBLEMS,)
    assert (graph["program"][built.ends] == np.arange(PROBLEMS)).all()
    assert set(graph["kind"][built.ends]) <= {CALL, JOINT}
    first, second = graph.finish().requests, drawn(id, spec)[0].finish().requests
    assert (first.input_tokens == second.input_tokens).all() and (first.output_tokens == second.output_tokens).all()


def test_scores_are_calls_of_their_own() -> None:
    assert calls(drawn("best_of_n", n=8, selector="majority")[0]) == 8 * PROBLEMS
    assert calls(drawn("best_of_n", n=8, selector="verifier")[0]) == 16 * PROBLEMS
    assert calls(drawn("solve_verify", n=4, verifications=3)[0]) == (4 + 12) * PROBLEMS
    assert calls(drawn("multilingual_sampling", n=5)[0]) == 6 * PROBLEMS


def test_the_first_accepted_cancels_the_others() -> None:
    graph, built = drawn("first_accept", n=8)
    needs = graph["needs"][built.ends]
    assert set(needs) <= {1, 8} and (needs == 1).any()
    first, last = graph["first_cancelled"][built.ends], graph["last_cancelled"][built.ends]
    assert (graph["program"][first] == np.arange(PROBLEMS)).all() and (last > first).all()


def test_one_after_another_makes_fewer_calls_and_stops_at_what_is_accepted() -> None:
    graph, built = drawn("first_accept", n=8, order="sequential", by="checker")
    chance = work().p
    assert calls(graph) < 8 * PROBLEMS
    assert built.right is not None and built.right.mean() > chance.mean()


def test_a_vote_needs_as_many_ends_as_settle_it() -> None:
    graph, built = drawn("early_stop", n=9)
    needs = graph["needs"][built.ends]
    assert needs.min() >= 5 and needs.max() <= 9 and (needs < 9).any()
    likely = drawn("early_stop", n=9, rule="likely", certainty=0.9)
    assert likely[0]["needs"][likely[1].ends].mean() < needs.mean()


def test_rounds_end_when_answers_agree() -> None:
    """Answers 0 are right; −1 and −2 are given once each."""
    given = np.array([[0, 0, 0, 0, 1, 1], [0, 1, 0, 0, 0, 0], [0, 1, -3, 1, 0, -6]])
    assert settled_after(given, 1.0, 2).tolist() == [2, 6, 6]
    half = 1 - (-(0.75 * np.log(0.75) + 0.25 * np.log(0.25))) / np.log(4)
    assert settled_after(given, half, 2).tolist() == [2, 4, 6]
    assert settled_after(given, half + 1e-6, 2).tolist()[1] == 6
    graph, built = drawn("early_stop", n=8, rule="rounds", round=2, certainty=1.0)
    hops = graph["hops"][built.ends]
    assert set(hops.tolist()) <= {1, 2, 3, 4} and len(set(hops.tolist())) > 1
    assert calls(graph) == 2 * hops.sum() < calls(drawn("best_of_n", n=8, selector="majority")[0])
    whole = drawn("early_stop", n=8, rule="rounds", round=8)[0]
    assert calls(whole) == 8 * PROBLEMS
    once, ended = drawn("early_stop", n=8, rule="rounds", round=2, certainty=1.0, rest=True)
    assert set(once["hops"][ended.ends].tolist()) == {1, 2}
    assert calls(once) == 2 * (hops == 1).sum() + 8 * (hops > 1).sum()


def test_probes_shorten_chains_and_stand_behind_every_interval() -> None:
    from windtunnel.programs.strategies.early_stop import PROBE_ANSWER_TOKENS

    full = drawn("best_of_n", n=1)[0].finish().requests.output_tokens.sum()
    graph, _ = drawn("early_stop", n=1, rule="probe", interval=64)
    output = graph["answer"] - graph["prompt"]
    on_chain = output[(graph["kind"] == CALL) & (output != PROBE_ANSWER_TOKENS)].sum()
    assert 0.4 * full < on_chain < 0.75 * full
    slow = drawn("early_stop", n=1, rule="probe", interval=64, settles=0.99)[0]
    assert calls(slow) > calls(graph)


def test_confidence_stops_most_of_what_the_warm_up_ranks_low() -> None:
    full = drawn("best_of_n", n=64)[0].finish().requests.output_tokens.sum()
    few = drawn("early_stop", n=64, rule="confidence", interval=128, keep=0.1)[0].finish().requests.output_tokens.sum()
    most = drawn("early_stop", n=64, rule="confidence", interval=128, keep=0.9)[0].finish().requests.output_tokens.sum()
    assert few < most < full


@pytest.mark.parametrize("id", ["beam", "rebase"])
def test_a_search_keeps_its_width_and_scores_every_step(id: str) -> None:
    graph, _ = drawn(id, n=8, steps=4)
    assert calls(graph) == 2 * 8 * 4 * PROBLEMS
    requests = graph.finish().requests
    assert requests.prefix_tokens is not None and (requests.prefix_tokens > 100).any()  # steps share beginnings


def test_a_tree_search_expands_once_a_rollout_until_answers_are_whole() -> None:
    graph, built = drawn("mcts", n=6, branching=3, steps=2)
    assert calls(graph) <= (2 * 3 * 6 + 1) * PROBLEMS
    assert built.right is not None


def test_hard_problems_get_more_attempts_at_the_same_mean() -> None:
    from windtunnel.programs.strategies.compute_optimal import plan

    knobs = knobs_of("compute_optimal", {"n": 8, "selector": "checker", "noise": 0.0})
    own = plan(POINTS, knobs, Quality(points=POINTS))
    sizes = [option.n for option in own.options]
    assert sizes[-1] <= 2 and max(sizes) > 8
    assert np.mean(sizes) <= 8 + 1e-9


def test_even_bins_differ_in_the_strategy_alone() -> None:
    from windtunnel.programs.strategies.compute_optimal import plan

    quality = Quality(points=POINTS, separation=0.8, separation_stated=True)
    knobs = knobs_of("compute_optimal", {"n": 16, "even": True, "noise": 0.0})
    assert {(o.kind, o.n) for o in plan(POINTS, knobs, quality).options} == {("best_of_n", 16)}
    with_beams = plan(POINTS, knobs | {"beams": True}, quality).options
    assert {o.n for o in with_beams} == {16} and "beam" in {o.kind for o in with_beams}


def test_rounds_of_drafts_wait_for_all_where_they_are_synchronous() -> None:
    alone = drawn("draft_rounds", n=4, rounds=3, order="asynchronous")[0]
    in_step = drawn("draft_rounds", n=4, rounds=3, order="synchronous")[0]
    assert calls(alone) == calls(in_step)
    assert (in_step["kind"] == JOINT).sum() == (alone["kind"] == JOINT).sum() + 3 * PROBLEMS


def test_easy_sub_problems_are_short() -> None:
    from windtunnel.programs.strategies.scale_selective import share_of_tokens

    long = drawn("scale_selective", easy=0.0, plan_tokens=0)[0].finish().requests.output_tokens.sum()
    own = drawn("scale_selective", easy=0.5, short=0.2, plan_tokens=0)[0].finish().requests.output_tokens.sum()
    assert own / long == pytest.approx(share_of_tokens(0.5, 0.2), rel=0.15)


def test_a_budget_cuts_attempts_and_waiting_lengthens_them() -> None:
    full = drawn("budget_forcing")[0].finish().requests.output_tokens.sum()
    cut = drawn("budget_forcing", max_tokens=500)[0].finish().requests
    assert cut.output_tokens.max() <= 500 and cut.output_tokens.sum() < full
    assert drawn("budget_forcing", waits=2)[0].finish().requests.output_tokens.sum() > 1.4 * full


def test_votes_are_over_when_no_one_can_catch_up() -> None:
    given = np.array([[0, 0, 0, 1, 1], [1, 0, 1, 0, -1], [-1, -2, -3, 0, 0]])
    assert certain_after(given).tolist() == [3, 5, 5]
    first, second = leaders(given)
    assert first[:, -1].tolist() == [3, 2, 2] and second[:, -1].tolist() == [2, 2, 1]
    assert winner_right(given).tolist() == [1.0, 0.5, 1.0]
    assert likely_after(given, 1.0).tolist() == [3, 5, 5]


def test_the_winner_is_the_same_when_a_certain_vote_ends() -> None:
    random = np.random.default_rng(1)
    given = labels(random.random((500, 15)) < 0.3, ((0.4, 0.2),), random)
    after = certain_after(given)
    counted = np.arange(15)[None, :] < after[:, None]
    assert (winner_right(given) == winner_right(given, counted=counted)).all()


SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
    "population": {"beta": {"a": 0.4, "b": 0.6}},
}


def test_one_attempt_is_served_as_plain_requests_are_to_the_bit() -> None:
    programs = {"strategy": {"best_of_n": {"n": 1}}, "problems": 30, "offline": True}
    lengths = {"input_tokens": 120, "output_tokens": 90}
    reasoned = api.simulate_programs({**SCENARIO, "programs": programs | lengths}).points[0]
    traffic = {"offline": True, "num_requests": 30} | lengths
    scenario = {k: v for k, v in SCENARIO.items() if k != "population"}
    served = api.simulate_serving({**scenario, "serving": {"pools": [{"plan": {"tp": 1}}], "traffic": traffic}})
    assert reasoned.latency_s["p50"] == served.e2e_s.p50
    assert reasoned.latency_s["mean"] == served.e2e_s.mean
    assert reasoned.serving[reasoned.model]["output_tokens_per_s"] == served.output_tokens_per_s


def test_all_strategies_stand_side_by_side_on_one_front() -> None:
    ids = [id for id, strategy in STRATEGIES.items() if not strategy.tools and id != "graph"]  # which has no default
    own = [{id: {"n": 4}} if "n" in STRATEGIES.get(id).knobs and id != "early_stop" else id for id in ids]
    programs = {"strategies": own, "problems": 10, "offline": True, "output_tokens": 64}
    result = api.simulate_programs({**SCENARIO, "programs": programs})
    assert [p.strategy for p in result.points] == ids
    assert all(p.latency_s["p50"] > 0 for p in result.points)
    known = [p for p in result.points if p.accuracy is not None]
    assert all(0 <= p.accuracy.low <= p.accuracy.mean <= p.accuracy.high <= 1 for p in known if p.accuracy)


@pytest.mark.parametrize(
    ("strategy", "field"),
    [
        ({"beam": {"n": 8, "keep": 3}}, "keep"),
        ({"early_stop": {"n": 8, "rule": "confidence", "warmup": 16}}, "warmup"),
        ({"first_accept": {"order": "neither"}}, "order"),
    ],
)
def test_knobs_that_contradict_are_named(strategy: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput, match=field):
        api.simulate_programs({**SCENARIO, "programs": {"strategy": strategy, "offline": True}})
