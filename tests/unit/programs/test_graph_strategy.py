"""A user's own graph: one implementation with agents, branches by their shares, every mistake named at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from windtunnel.errors import ProblemList
from windtunnel.population.beta import Beta
from windtunnel.population.checker import first_accepted
from windtunnel.population.majority import majority
from windtunnel.programs.attempt_lengths import AttemptLengths
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic import generate
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.serving.traffic.single_source import sent
from windtunnel.specs.programs import ProgramsSpec
from windtunnel.specs.traffic import TrafficSpec

TRAFFIC = {"rate_per_s": 2.0, "num_requests": 200}
CALLS: list[dict[str, Any]] = [
    {"id": "plan", "input_tokens": {"distribution": "lognormal", "mean": 300, "cv": 0.5}, "output_tokens": 50},
    {
        "id": "work",
        "after": ["plan"],
        "input_tokens": 20,
        "output_tokens": {"distribution": "lognormal", "mean": 80, "cv": 1.0},
        "tool_s": 2.0,
        "repeat": 3,
    },
    {
        "id": "check",
        "after": ["plan"],
        "context": "fresh",
        "input_tokens": 20,
        "output_tokens": 30,
        "tool_s": 1.0,
        "tool_distribution": "fixed",
    },
    {"id": "end", "after": ["work", "check"], "input_tokens": 5, "output_tokens": 9},
]


def as_node(call: dict[str, Any]) -> dict[str, Any]:
    """The same call in the words of a graph."""
    names = {"tool_s": "delay_s", "tool_distribution": "delay_distribution"}
    return {names.get(name, name): value for name, value in call.items()}


def workload(problems: int = 200, **programs: Any) -> Workload:
    """Problems whose attempts are right half the time."""
    stated = {"strategy": "graph", "problems": problems, "rate_per_s": 2.0} | programs
    spec = ProgramsSpec.model_validate(stated)
    return Workload(
        spec=spec,
        p=np.full(problems, Beta(2, 2).mean),
        prompt_tokens=np.full(problems, 100, np.int64),
        lengths=AttemptLengths(400, 400),
        quality=Quality(),
        seed=spec.seed,
    )


def built(nodes: list[dict[str, Any]], work: Workload, *, question: bool = True) -> tuple[ProgramGraph, Built]:
    """Programs of a graph."""
    graph = ProgramGraph(np.zeros(len(work.p)), servers=(1,))
    return graph, STRATEGIES.get("graph").build(graph, work, {"nodes": nodes, "question": question})


def problems_of(nodes: list[dict[str, Any]]) -> list[str]:
    """What a check says, a line each."""
    found = ProblemList()
    STRATEGIES.get("graph").check({"nodes": nodes, "question": True}, found, "graph")
    return [str(one) for one in found]


def test_without_branches_it_is_agents_to_the_bit() -> None:
    agents = {"agents": [{"name": "team", "system_tokens": 100, "calls": CALLS}]}
    spec = TrafficSpec.model_validate(TRAFFIC | agents)
    theirs = generate(spec).requests
    work = workload(system_tokens=100)
    graph = ProgramGraph(sent(spec, 0, 200, 1.0))
    nodes = [as_node(c) for c in CALLS]
    STRATEGIES.get("graph").build(graph, work, {"nodes": nodes, "question": False})
    ours = graph.finish().requests
    for name in ("input_tokens", "output_tokens", "delay_s", "group", "tenant", "prefix_tokens", "arrival_s"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    assert ours.content is not None and theirs.content is not None
    np.testing.assert_array_equal(ours.content.nodes, theirs.content.nodes)
    np.testing.assert_array_equal(ours.content.tokens, theirs.content.tokens)
    assert ours.after is not None and theirs.after is not None
    count = len(theirs)
    inner = theirs.after.start[: count + 1]
    edges = {(i, int(c)) for i in range(count) for c in theirs.after.children[inner[i] : inner[i + 1]]}
    own = {
        (i, int(c))
        for i in range(count)
        for c in ours.after.children[ours.after.start[i] : ours.after.start[i + 1]]
        if c < count
    }
    assert own == edges  # beside them, ours has the join that tells when a program is over


def test_order_of_the_list_does_not_matter() -> None:
    nodes = [
        {"id": "end", "after": ["a", "b"], "output_tokens": 5},
        {"id": "b", "after": ["a"], "output_tokens": 7},
        {"id": "a", "output_tokens": 3},
    ]
    graph, _ = built(nodes, workload(3))
    calls = graph["kind"] == 1
    np.testing.assert_array_equal((graph["answer"] - graph["prompt"])[calls], [3, 3, 3, 7, 7, 7, 5, 5, 5])


def test_a_branch_and_its_otherwise_part_the_programs() -> None:
    nodes = [
        {"id": "first", "output_tokens": 10},
        {"id": "hard", "kind": "branch", "after": ["first"], "probability": 0.3},
        {"id": "easy", "kind": "branch", "after": ["first"], "otherwise": "hard"},
        {"id": "long", "after": ["hard"], "output_tokens": 1000},
        {"id": "short", "after": ["easy"], "output_tokens": 20},
        {"id": "end", "after": ["long", "short"], "output_tokens": 1},
    ]
    graph, out = built(nodes, workload(4000))
    tokens = (graph["answer"] - graph["prompt"])[graph["kind"] == 1]
    long, short = int((tokens == 1000).sum()), int((tokens == 20).sum())
    assert long + short == 4000
    assert abs(long / 4000 - 0.3) < 0.03
    assert (out.ends >= 0).all()
    ends = np.flatnonzero((graph["kind"] == 1) & (graph["answer"] - graph["prompt"] == 1))
    read = graph["prompt"][ends]
    assert set(read.tolist()) == {100 + 10 + 1000, 100 + 10 + 20}  # what ran, and nothing of what did not


def test_joined_goes_on_from_the_parent_with_the_texts_of_children() -> None:
    nodes = [
        {"id": "parent", "output_tokens": 50},
        {"id": "one", "after": ["parent"], "output_tokens": 7},
        {"id": "two", "after": ["parent"], "output_tokens": 9},
        {"id": "on", "after": ["one", "two"], "context": "joined", "output_tokens": 3},
    ]
    graph, _ = built(nodes, workload(2))
    assert set(graph["prompt"][-4:-2].tolist()) == {100 + 50 + 7 + 9}


def test_a_tool_adds_its_result_to_the_next_prompt() -> None:
    nodes = [
        {"id": "ask", "output_tokens": 10},
        {"id": "find", "kind": "retrieve", "tool": "index", "after": ["ask"]},
        {"id": "read", "after": ["find"], "output_tokens": 5},
    ]
    tools = {"index": {"seconds": 0.5, "concurrency": 1, "result_tokens": 600}}
    graph, _ = built(nodes, workload(4, tools=tools))
    reads = np.flatnonzero((graph["kind"] == 1) & (graph["answer"] - graph["prompt"] == 5))
    np.testing.assert_array_equal(graph["prompt"][reads], 100 + 10 + 600)
    finds = np.flatnonzero(graph["seconds"] > 0)
    assert len(finds) == 4
    assert (graph["server"][finds] == 0).all()


def test_a_quorum_never_asks_for_more_than_there_is() -> None:
    nodes = [
        {"id": "first", "output_tokens": 10},
        {"id": "maybe", "kind": "branch", "after": ["first"], "probability": 0.5},
        {"id": "a", "after": ["maybe"], "output_tokens": 10},
        {"id": "b", "after": ["first"], "output_tokens": 10},
        {"id": "two", "kind": "join", "after": ["a", "b"], "needs": 2, "cancels": ["a", "b"]},
        {"id": "end", "after": ["two"], "output_tokens": 1},
    ]
    graph, _ = built(nodes, workload(100))
    joins = np.flatnonzero(graph["last_cancelled"] >= 0)
    assert set(graph["needs"][joins].tolist()) == {1, 2}
    assert (graph["first_cancelled"][joins] <= graph["last_cancelled"][joins]).all()


def accepted_first(n: int) -> list[dict[str, Any]]:
    """n attempts with a judge each; over with the first that is accepted."""
    attempts = [f"a{i}" for i in range(n)]
    judges = [f"s{i}" for i in range(n)]
    nodes: list[dict[str, Any]] = [{"id": a, "attempt": True} for a in attempts]
    nodes += [{"id": s, "kind": "score", "after": [a]} for a, s in zip(attempts, judges, strict=True)]
    pick = {"id": "pick", "kind": "join", "after": judges, "choose": "accepted", "early": True}
    return [*nodes, {**pick, "cancels": [*attempts, *judges]}]


def share_right(nodes: list[dict[str, Any]], answer: str, work: Workload) -> float:
    graph = ProgramGraph(np.zeros(len(work.p)), servers=(1,))
    out = STRATEGIES.get("graph").build(graph, work, {"nodes": nodes, "question": True, "answer": answer})
    assert out.right is not None
    return float(out.right.mean())


def test_the_first_accepted_of_a_graph_has_its_closed_form() -> None:
    rates = {"true_accept": 0.8, "false_accept": 0.3}
    work = workload(40_000, verifier=rates)
    work.quality = replace(work.quality, **rates)
    expected = float(first_accepted(np.array([0.5]), 0.8, 0.3, 3)[0])
    assert share_right(accepted_first(3), "pick", work) == pytest.approx(expected, abs=0.01)


def test_an_early_join_waits_for_what_may_settle_it_alone() -> None:
    work = workload(200)
    graph, out = built(accepted_first(3), work)
    joins = np.flatnonzero(graph["last_cancelled"] >= 0)
    needs = graph["needs"][joins]
    assert set(needs.tolist()) == {1, 3}  # one that is accepted, or all where none is
    assert graph.finish().requests.after is not None
    assert (graph["kind"][out.ends] == 2).all()


def test_a_majority_of_a_graph_is_that_of_votes() -> None:
    nodes: list[dict[str, Any]] = [{"id": f"a{i}", "attempt": True} for i in range(5)]
    nodes.append({"id": "vote", "kind": "join", "after": [n["id"] for n in nodes], "choose": "majority"})
    work = workload(40_000)
    work.quality = replace(work.quality, wrong_answers=((0.4, 0.2),))
    expected = float(majority(np.array([0.5]), 5, ((0.4, 0.2),))[0])
    assert share_right(nodes, "vote", work) == pytest.approx(expected, abs=0.01)


LOOP: list[dict[str, Any]] = [
    {"id": "plan", "output_tokens": 10},
    {
        "id": "solve",
        "kind": "loop",
        "after": ["plan"],
        "times": 3,
        "rejected": ["test"],
        "nodes": [
            {"id": "write", "attempt": True, "output_tokens": 20},
            {"id": "test", "kind": "tool", "tool": "tests", "after": ["write"], "of": "write"},
        ],
    },
    {"id": "report", "after": ["solve"], "output_tokens": 5},
]
TESTS = {"tests": {"seconds": 1.0, "concurrency": 1, "result_tokens": 100}}


def test_a_loop_goes_round_until_its_judge_accepts() -> None:
    work = workload(20_000, tools=TESTS)
    assert share_right(LOOP, "solve", work) == pytest.approx(1 - 0.5**3, abs=0.01)
    graph, _ = built(LOOP, workload(2000, tools=TESTS))
    made = graph["answer"] - graph["prompt"]
    writes = np.flatnonzero((graph["kind"] == 1) & (made == 20))
    assert len(writes) / 2000 == pytest.approx(1 + 0.5 + 0.25, abs=0.05)
    assert set(graph["prompt"][writes].tolist()) == {110, 110 + 20 + 100, 110 + 2 * (20 + 100)}
    reports = np.flatnonzero((graph["kind"] == 1) & (made == 5))
    assert len(reports) == 2000
    assert set(graph["prompt"][reports].tolist()) == {110 + k * 120 for k in (1, 2, 3)}


def test_tests_that_err_accept_by_their_rates() -> None:
    blind = {"tests": {**TESTS["tests"], "true_accept": 1.0, "false_accept": 1.0}}
    assert share_right(LOOP, "solve", workload(20_000, tools=blind)) == pytest.approx(0.5, abs=0.01)


def test_a_branch_follows_a_verdict() -> None:
    nodes = [
        {"id": "try", "attempt": True, "output_tokens": 20},
        {"id": "test", "kind": "tool", "tool": "tests", "after": ["try"], "of": "try"},
        {"id": "bad", "kind": "branch", "after": ["test"], "rejected": ["test"]},
        {"id": "good", "kind": "branch", "after": ["test"], "accepted": ["test"]},
        {"id": "again", "after": ["bad"], "output_tokens": 7},
        {"id": "tell", "after": ["good"], "output_tokens": 3},
    ]
    graph, _ = built(nodes, workload(2000, tools=TESTS))
    made = (graph["answer"] - graph["prompt"])[graph["kind"] == 1]
    assert int((made == 7).sum()) + int((made == 3).sum()) == 2000
    assert int((made == 7).sum()) / 2000 == pytest.approx(0.5, abs=0.04)


def test_what_is_written_off_peak_stands_in_every_prompt() -> None:
    nodes = [
        {"id": "dream", "off_peak": True, "input_tokens": 30, "output_tokens": 70},
        {"id": "a", "output_tokens": 2},
    ]
    work = workload(20)
    graph = ProgramGraph(np.zeros(20))
    knobs = {"nodes": nodes, "question": True, "answer": "", "shared_by": 10, "off_peak_price": 0.2}
    out = STRATEGIES.get("graph").build(graph, work, knobs)
    assert out.off_peak is not None and out.off_peak.price_share == 0.2
    assert set(graph["prompt"][graph["kind"] == 1].tolist()) == {170}
    asleep = out.off_peak.graph
    assert int((asleep["kind"] == 1).sum()) == 2
    assert graph.finish().requests.prefix_tokens.max() == 70  # of all problems of a group


def test_nodes_go_to_the_models_that_they_name() -> None:
    nodes = [{"id": "plan", "model": "planner", "output_tokens": 2}, {"id": "a", "after": ["plan"], "output_tokens": 3}]
    work = workload(4)
    work.roles = {"planner": 2}
    graph, _ = built(nodes, work)
    calls = graph["kind"] == 1
    np.testing.assert_array_equal(graph["pool"][calls], [2] * 4 + [0] * 4)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([{"id": "a", "after": ["b"], "output_tokens": 1}, {"id": "b", "after": ["a"], "output_tokens": 1}], ["cycle"]),
        ([{"id": "a", "output_tokens": 1}, {"id": "j", "kind": "join"}], ["join waits for at least one"]),
        (
            [{"id": "a", "output_tokens": 1}, {"id": "b", "kind": "branch", "after": ["a"], "probability": 1.2}],
            ["probability"],
        ),
        ([{"id": "a", "after": ["nothing"], "output_tokens": 1}], ["must name a node"]),
        ([{"id": "t", "kind": "tool", "seconds": 1}, {"id": "a", "output_tokens": 1}], ["come behind a call"]),
        ([{"id": "a", "output_tokens": 1}, {"id": "a", "output_tokens": 1}], ["given twice"]),
        ([{"id": "a", "probability": 0.5, "output_tokens": 1}], ["is read by kind branch alone"]),
        ([], ["at least one node"]),
        ([{"id": "a", "worth": 2, "output_tokens": 1}], ["goes with attempt: true"]),
        ([{"id": "l", "kind": "loop"}], ["goes round at least one node"]),
        ([{"id": "l", "kind": "loop", "times": 2, "nodes": [{"id": "x"}]}], ["which judges send a loop round again"]),
        (
            [{"id": "l", "kind": "loop", "times": 2, "rejected": ["x"], "nodes": [{"id": "x", "output_tokens": 1}]}],
            ["must name a judge"],
        ),
        (
            [{"id": "l", "kind": "loop", "times": 2, "rejected": ["y"], "nodes": [{"id": "x"}, {"id": "x"}]}],
            ["must name a node of the loop", "given twice"],
        ),
        (
            [{"id": "a", "output_tokens": 1}, {"id": "t", "kind": "tool", "seconds": 1, "after": ["a"], "of": "a"}],
            ["must name an attempt"],
        ),
        (
            [{"id": "a", "attempt": True}, {"id": "j", "kind": "join", "after": ["a"], "choose": "accepted"}],
            ["must name judges"],
        ),
        (
            [
                {"id": "a", "attempt": True},
                {"id": "j", "kind": "join", "after": ["a"], "choose": "score", "early": True},
            ],
            ["goes with choose"],
        ),
        (
            [{"id": "a", "attempt": True}, {"id": "b", "kind": "branch", "after": ["a"], "rejected": ["a"]}],
            ["must name a judge"],
        ),
        (
            [{"id": "d", "off_peak": True}, {"id": "a", "after": ["d"], "output_tokens": 1}],
            ["made beforehand"],
        ),
        (
            [
                {"id": "a", "output_tokens": -1, "after": ["x"]},
                {"id": "b", "kind": "tool", "after": ["a"]},
                {"id": "c", "kind": "banana"},
            ],
            ["output_tokens", "tool", "kind"],
        ),
    ],
)
def test_every_mistake_has_a_line(nodes: list[dict[str, Any]], words: list[str]) -> None:
    lines = problems_of(nodes)
    assert len(lines) >= len(words)
    for word in words:
        assert any(word in line for line in lines), lines
    assert all("\n" not in line for line in lines)
