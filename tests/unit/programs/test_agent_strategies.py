"""Programs of agents and threads: who waits for whom, what prompts hold, and that tokens add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel.arrays import Ints
from windtunnel.errors import BadInput
from windtunnel.programs.attempt_lengths import AttemptLengths
from windtunnel.programs.forks import Fork, divided
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES, text_to_sql
from windtunnel.programs.strategy import Built
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.specs.programs import ProgramsSpec

TOOLS = {name: {"seconds": 0.5} for name in ("environment", "files", "queue", "retrieval", "sandbox")}
TOOLS["orchestrator"] = {"seconds": 0.1, "concurrency": 1}
OWN = (
    "threads",
    "multiverse",
    "apr",
    "split_prompt",
    "rag",
    "debate",
    "orchestrator",
    "peer_to_peer",
    "text_to_sql",
    "coding_agent",
    "sleep_time",
    "agent_groups",
    "shared_memory",
)


def workload(problems: int = 20, folder: Path | None = None) -> Workload:
    """Problems of 100 tokens whose answers have 400."""
    spec = ProgramsSpec.model_validate({"strategy": "x", "problems": problems, "offline": True, "tools": TOOLS})
    return Workload(
        spec=spec,
        p=np.full(problems, 0.5),
        prompt_tokens=np.full(problems, 100, np.int64),
        lengths=AttemptLengths(400, 400),
        quality=Quality(),
        seed=0,
        folder=folder or Path(),
    )


def built(id: str, work: Workload, **given: Any) -> tuple[ProgramGraph, Built]:
    """Programs of a strategy with its defaults and what is given."""
    strategy = STRATEGIES.get(id)
    knobs = {name: knob.default for name, knob in strategy.knobs.items()} | given
    graph = ProgramGraph(np.zeros(len(work.p)), servers=(1,))
    return graph, strategy.build(graph, work, knobs)


def calls(graph: ProgramGraph) -> Ints:
    """Numbers of all calls."""
    return np.flatnonzero(graph["kind"] == 1)


def outputs(graph: ProgramGraph) -> Ints:
    """Tokens that each call generates."""
    own = calls(graph)
    return np.asarray(graph["answer"][own] - graph["prompt"][own], np.int64)


@pytest.mark.parametrize("id", OWN)
def test_every_program_has_an_end_of_its_own(id: str) -> None:
    work = workload()
    graph, out = built(id, work)
    assert (out.ends >= 0).all()
    np.testing.assert_array_equal(graph["program"][out.ends], work.problems)
    requests = graph.finish().requests
    assert requests.output_tokens.min() >= 1
    assert requests.after is not None
    assert set(requests.group.tolist()) == set(range(20))


@pytest.mark.parametrize("id", OWN)
def test_equal_seeds_draw_equal_programs(id: str) -> None:
    one, two = built(id, workload())[0].finish().requests, built(id, workload())[0].finish().requests
    np.testing.assert_array_equal(one.input_tokens, two.input_tokens)
    np.testing.assert_array_equal(one.output_tokens, two.output_tokens)


def test_threads_write_the_tokens_of_a_serial_answer() -> None:
    graph, _ = built("threads", workload(), width=5, parallel=0.6, blocks=2)
    assert outputs(graph).sum() == 20 * 400


def test_one_thread_is_serial_text_with_one_more_prefill() -> None:
    graph, _ = built("threads", workload(1), width=1, parallel=0.5, cv=0.0)
    own = calls(graph)
    np.testing.assert_array_equal(outputs(graph), [100, 200, 100])
    np.testing.assert_array_equal(graph["prompt"][own], [100, 200, 400])
    np.testing.assert_array_equal(graph["context"][own[1:]], [own[0], own[0]])
    np.testing.assert_array_equal(graph["reused"][own], [0, 0, 0])


def test_multiverse_takes_over_what_its_branches_wrote() -> None:
    graph, _ = built("multiverse", workload(1), width=4, parallel=0.5)
    assert graph["reused"][calls(graph)[-1]] == 200


def test_the_critical_path_falls_with_threads_and_is_the_total_with_one() -> None:
    tokens = np.full(50, 1000, np.int64)
    one = Fork(blocks=2, width=1, parallel=0.8, cv=0.0, instruction_tokens=0, reuse=False)
    four = Fork(blocks=2, width=4, parallel=0.8, cv=0.0, instruction_tokens=0, reuse=False)
    uneven = Fork(blocks=2, width=4, parallel=0.8, cv=1.0, instruction_tokens=0, reuse=False)
    alone, even, spread = (divided(tokens, f, np.random.default_rng(0)) for f in (one, four, uneven))
    np.testing.assert_array_equal(alone.critical, 1000)
    np.testing.assert_array_equal(even.critical, 200 + 800 // 4)
    assert (spread.total == 1000).all()
    assert spread.critical.mean() > even.critical.mean()


def test_children_of_apr_do_not_read_the_parent() -> None:
    graph, _ = built("apr", workload(200), spawn_tokens=30, cv=0.0, parent_tokens=400.0, child_tokens=100.0)
    own = calls(graph)
    children = own[outputs(graph) == 100]
    np.testing.assert_array_equal(graph["prompt"][children], 130)
    assert abs(len(children) / 200 - 6.1) < 0.5


def test_a_split_prompt_has_one_call_an_item() -> None:
    graph, _ = built("split_prompt", workload(3), items=6, schema_tokens=0)
    assert len(calls(graph)) == 18
    assert outputs(graph).sum() == 3 * 400


def test_iterations_of_retrieval_read_documents_each_time() -> None:
    graph, _ = built("rag", workload(1), documents=4, document_tokens=50, shots=2, shot_tokens=30, iterations=3)
    prompts = graph["prompt"][calls(graph)].tolist()
    assert prompts == [100, 100 + 200 + 60, 360 + 24 + 200, 584 + 24 + 200]


def test_a_debate_reads_all_other_answers() -> None:
    graph, _ = built("debate", workload(1), agents=3, rounds=2, instruction_tokens=10)
    assert graph["prompt"][calls(graph)].tolist() == [100] * 3 + [100 + 400 + 2 * 400 + 10] * 3


def test_only_the_orchestrator_has_a_slot() -> None:
    held, free = (built(id, workload(2))[0] for id in ("orchestrator", "peer_to_peer"))
    hops = [g["seconds"] > 0 for g in (held, free)]
    assert hops[0].sum() == hops[1].sum() == 2 * 12
    assert (held["server"][hops[0]] == 0).all()
    assert (free["server"][hops[1]] == -1).all()


def test_a_coding_session_has_the_published_means() -> None:
    graph, _ = built("coding_agent", workload(60))
    own = calls(graph)
    assert len(own) / 60 == 84
    assert abs(graph["prompt"][own].mean() / 154_000 - 1) < 0.03
    assert abs(outputs(graph).mean() / 523 - 1) < 0.05
    assert abs((graph["seconds"] > 0).sum() / (60 * 83) - 1.2) < 0.05


def test_sleep_is_served_apart_and_its_note_is_shared() -> None:
    graph, out = built("sleep_time", workload(20), queries=10, sleep_tokens=3000, query_share=0.25)
    assert out.off_peak is not None
    assert out.off_peak.graph.finish().requests.output_tokens.tolist() == [3000, 3000]
    assert set(outputs(graph).tolist()) == {100}
    found = graph.finish().requests.prefix_tokens
    assert (found > 0).sum() == 18  # of each context, all queries but the first


def test_text_to_sql_follows_a_trace(tmp_path: Path) -> None:
    trace = [["extract_keywords", 600, 40], ["evaluate", 900, 22], ["evaluate", 950, 30], ["unit_tester", 270, 4]]
    (tmp_path / "t.json").write_text(json.dumps([{"name": "one", "traces": [trace, trace[:1]]}]))
    graph, out = built("text_to_sql", workload(3, tmp_path), file="t.json")
    assert sorted(graph["prompt"][calls(graph)].tolist()) == sorted([600, 900, 950, 270, 600, 600, 900, 950, 270])
    last = graph["prompt"][out.ends]
    assert last.tolist() == [270, 600, 270]
    requests = graph.finish().requests
    assert requests.after is not None
    first = requests.after.children[requests.after.start[0] : requests.after.start[1]]
    assert len(first) == 2  # both evaluations wait for the keywords alone


def test_prompts_of_a_stage_begin_with_its_template() -> None:
    """Evaluations of a question share its text, candidates and revisions their template alone."""
    graph, _ = built("text_to_sql", workload(3), cv=0.0, schema_cv=0.0)
    requests = graph.finish().requests
    assert requests.content is not None
    common = requests.prefix_tokens
    assert common is not None
    revised = requests.input_tokens == 2859 + 200 + 2775 + 125
    evaluated = requests.input_tokens == 960
    assert revised.any()
    assert (common[revised] <= 2859).all() and (common[revised] == 2859).sum() >= revised.sum() - 1
    test = 102 // 5
    assert sorted(set(common[evaluated].tolist())) == [0, 202, 960 - test - 25]
    alone, _ = built("text_to_sql", workload(3), templates=False)
    drawn = alone.finish().requests
    assert drawn.prefix_tokens is not None and not drawn.prefix_tokens.any()


def test_a_question_that_is_asked_again_has_the_same_prompts() -> None:
    graph, _ = built("text_to_sql", workload(12), distinct=3, repeats=True)
    requests = graph.finish().requests
    assert requests.prefix_tokens is not None
    again = requests.prefix_tokens == requests.input_tokens - 1
    assert again.mean() > 0.7  # nine of twelve questions were asked before
    other, _ = built("text_to_sql", workload(12), distinct=3)
    found = other.finish().requests.prefix_tokens
    assert found is not None
    assert (found == requests.input_tokens - 1).mean() < 0.2  # both agents' first prompts, which are all template


def test_the_published_order_of_candidates_decides_their_template() -> None:
    trace = [(text_to_sql.CANDIDATE, 12000, 600), (text_to_sql.CANDIDATE, 8134, 400), ("unit_tester", 271, 4)]
    both, tester = text_to_sql.prompts(trace, templates=True)
    assert [p.own for p in both] == [12000 - 9099, 8134 - 5243]
    assert (tester[0].template, tester[0].own) == ("unit_tester", 1)


@pytest.mark.parametrize("text", ["{", '[{"name": "a"}]', '[{"name": "a", "traces": [[["x", 0, 1]]]}]'])
def test_a_file_without_traces_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(BadInput):
        text_to_sql.read(tmp_path / "t.json", "")
