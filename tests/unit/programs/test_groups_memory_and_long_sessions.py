"""Groups of agents, teams with a memory, long sessions: where they are plain programs, and what their knobs move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.errors import BadInput, ProblemList
from windtunnel.programs.attempt_lengths import AttemptLengths
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategies.shared_memory import drawn
from windtunnel.programs.workload import Workload
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.specs.programs import ProgramsSpec

TOOLS = {name: {"seconds": 0.5} for name in ("environment", "files", "sandbox")}


def workload(problems: int = 30) -> Workload:
    """Problems of 100 tokens whose answers have 400."""
    spec = ProgramsSpec.model_validate({"strategy": "x", "problems": problems, "offline": True, "tools": TOOLS})
    return Workload(
        spec=spec,
        p=np.full(problems, 0.5),
        prompt_tokens=np.full(problems, 100, np.int64),
        lengths=AttemptLengths(400, 400),
        quality=Quality(),
        seed=0,
    )


def knobs_of(id: str, **given: Any) -> dict[str, Any]:
    """Defaults, and what is given."""
    return {name: knob.default for name, knob in STRATEGIES.get(id).knobs.items()} | given


def requests(id: str, problems: int = 30, **given: Any) -> Requests:
    """Calls of a strategy."""
    graph = ProgramGraph(np.zeros(problems))
    STRATEGIES.get(id).build(graph, workload(problems), knobs_of(id, **given))
    return graph.finish().requests


def tokens(own: Requests) -> int:
    """Read and written."""
    return int(own.input_tokens.sum() + own.output_tokens.sum())


def test_messages_and_edges_count_as_they_are_kept() -> None:
    given = {"groups": 3, "members": 2, "role_tokens": 50}
    whole = requests("agent_groups", **given)
    # six agents and a decision: question and role, an answer inside each group, 2·2 + 2·4 messages, three at last
    each = 7 * (100 + 50) + (3 + 12 + 3) * 400
    assert whole.input_tokens.sum() == 30 * each
    half = requests("agent_groups", **given, message_share=0.5)
    assert half.input_tokens.sum() == 30 * (each - 12 * 200)
    none = requests("agent_groups", **given, links=0.0)
    assert none.input_tokens.sum() == 30 * (each - 12 * 400)
    assert half.after is not None and none.after is not None
    assert len(none.after.children) == len(half.after.children) - 30 * 12  # an edge is a wait


def test_one_group_knows_no_messages() -> None:
    one, other = (requests("agent_groups", groups=1, message_share=s, links=l) for s, l in ((1.0, 1.0), (0.1, 0.0)))
    np.testing.assert_array_equal(one.input_tokens, other.input_tokens)


def test_fewer_edges_are_faster_than_shorter_messages_of_as_many_tokens() -> None:
    found = api.simulate_programs(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
            "programs": {
                "strategies": [{"agent_groups": {"message_share": 0.5}}, {"agent_groups": {"links": 0.5}}],
                "problems": 60,
                "concurrency": 4,
                "input_tokens": 200,
                "output_tokens": 200,
            },
            "population": {"pass_1": 0.5, "concentration": 1.0},
        }
    ).points
    assert found[1].prompt_tokens == pytest.approx(found[0].prompt_tokens, rel=0.05)
    assert found[1].latency_s["mean"] < found[0].latency_s["mean"]


def test_no_admission_is_no_memory() -> None:
    plain = requests("shared_memory", admission=0.0, overlap=0.8)
    alone = requests("shared_memory", admission=0.0, overlap=0.0, misread=0.5, key_tokens=99, controller=False)
    np.testing.assert_array_equal(plain.input_tokens, alone.input_tokens)
    np.testing.assert_array_equal(plain.output_tokens, alone.output_tokens)
    assert len(plain) == 30 * (4 * 20 + 1)


def test_hits_shorten_programs_and_keys_lengthen_contexts() -> None:
    off = {"misread": 0.0, "key_tokens": 0, "controller": False}
    none, every = (requests("shared_memory", **off, overlap=1.0, admission=a) for a in (0.0, 1.0))
    asked = int((every.output_tokens == 30).sum())
    assert asked > 30 * 20  # of four teams that all meet the same twenty sub-problems
    assert none.output_tokens.sum() - every.output_tokens.sum() == asked * (250 - 30)
    keyed = requests("shared_memory", **off | {"key_tokens": 40}, overlap=1.0, admission=1.0)
    assert keyed.input_tokens.sum() > every.input_tokens.sum()
    np.testing.assert_array_equal(keyed.output_tokens, every.output_tokens)


def test_one_team_finds_nothing() -> None:
    own = requests("shared_memory", teams=1, overlap=1.0, admission=1.0)
    assert len(own) == 30 * 21 and (own.output_tokens != 30).all()


def test_a_controller_reads_every_step_that_was_worked_out() -> None:
    given = {"overlap": 0.5, "admission": 0.2, "misread": 0.0}
    judged, free = (requests("shared_memory", **given, controller=c) for c in (True, False))
    worked = int((free.output_tokens == 250).sum())
    assert len(judged) == len(free) + worked


def test_misread_entries_are_read_for_nothing() -> None:
    given = {"overlap": 0.2, "admission": 1.0, "controller": False}
    clean, cluttered = (requests("shared_memory", **given, misread=m) for m in (0.0, 0.05))
    assert len(cluttered) > len(clean) and tokens(cluttered) > tokens(clean)


@pytest.mark.parametrize(("admission", "useful"), [(0.0, 0.0), (0.1, 0.5863), (1.0, 1.0)])
def test_useful_steps_are_admitted_by_the_separation(admission: float, useful: float) -> None:
    own = drawn(workload(2000), knobs_of("shared_memory", admission=admission, separation=1.5))
    assert own.admitted[own.subject >= 0].mean() == pytest.approx(useful, abs=0.01)
    assert own.admitted[own.subject < 0].mean() == pytest.approx(admission, abs=0.01)


def test_a_session_without_a_window_is_a_coding_agent() -> None:
    long = requests("long_horizon", turns=12, window=0, first_tokens=500, result_tokens=300.0, output_tokens=200.0)
    plain = {"steps": 12.0, "first_tokens": 500, "step_tokens": 300.0, "output_tokens": 200.0}
    agent = requests("coding_agent", **plain, cv=0.0)
    again = requests(
        "long_horizon", turns=12, window=0, first_tokens=500, result_tokens=300.0, output_tokens=200.0, cv=0.0
    )
    np.testing.assert_array_equal(again.input_tokens, agent.input_tokens)
    np.testing.assert_array_equal(again.output_tokens, agent.output_tokens)
    assert len(long) == len(again) == 30 * 12


def test_a_history_stays_within_its_window_and_begins_anew_cached() -> None:
    given: dict[str, Any] = {
        "turns": 60,
        "first_tokens": 500,
        "result_tokens": 300.0,
        "output_tokens": 200.0,
        "cv": 0.0,
    }
    own = requests("long_horizon", window=4000, summary_tokens=100, **given)
    asked = own.output_tokens == 100
    assert 30 * 60 + asked.sum() == len(own) and asked.sum() % 30 == 0 and asked.any()
    turns = own.input_tokens[~asked] + own.output_tokens[~asked]
    assert turns.max() <= 4000
    after = np.flatnonzero(asked) + 1  # of a program's calls the next one
    assert (own.input_tokens[after] == 100 + 500 + 100).all() and (own.prefix_tokens[after] >= 500).all()


def test_a_window_that_holds_no_beginning_is_refused() -> None:
    problems = ProblemList()
    STRATEGIES.get("long_horizon").check(knobs_of("long_horizon", window=1000), problems, "programs.strategy")
    with pytest.raises(BadInput, match="twice what a history begins anew with"):
        problems.raise_if_any()
