"""Rounds of drafts and verification: chains of a small model whose chunks a large one accepts or writes itself.

The scenario's model drafts; the verifier's model is the target. In each round every chain drafts a chunk, and the
target reads it; a share `rejected` of chunks is written again by the target. Synchronous rounds rank all chains of a
problem before any goes on; asynchronous ones hold a threshold of their own for each chain, which goes on by itself.

Source: Xiong et al. 2025 (arXiv 2509.15148), ATTS.
"""

from __future__ import annotations

import numpy as np

from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob

ORDERS = ("asynchronous", "synchronous")


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Chunks of all chains, round by round; which are rejected is drawn."""
    n, rounds = knobs["n"], knobs["rounds"]
    questions = work.questions(graph)
    problem = np.repeat(work.problems, n)
    tokens = work.answer_tokens(work.attempts(problem))
    rejected = work.random(49).random((rounds, len(problem))) < knobs["rejected"]
    at, after = questions[problem].copy(), np.full(len(problem), NONE)
    for turn in range(rounds):
        drawn = tokens * work.random(50).uniform(0.5, 1.5, len(problem)) / rounds
        size = np.maximum(np.rint(drawn), 1).astype(np.int64)
        draft = graph.call(problem, context=at, output=size, after=after)
        read = work.score_steps(graph, problem, draft)
        after = read
        if knobs["order"] == "synchronous":
            after = graph.join(work.problems, after=read.reshape(-1, n))[problem]
        on = np.flatnonzero(rejected[turn])
        next_at = draft.copy()
        if len(on):
            again = graph.call(problem[on], context=at[on], output=size[on], after=after[on], pool=work.verifier_pool)
            next_at[on] = again
            after = after.copy()
            after[on] = again
        at = next_at
    return Built(ends=graph.join(work.problems, after=after.reshape(-1, n)))


STRATEGIES.add(
    "draft_rounds",
    Strategy(
        id="draft_rounds",
        summary="chains of a small model in rounds, whose chunks a large model accepts or writes itself",
        build=build,
        knobs={
            "n": Knob(16, 1, 1024, doc="chains of a problem"),
            "rounds": Knob(8, 1, 1000, doc="chunks of a chain"),
            "rejected": Knob(0.2, 0.0, 1.0, doc="share of chunks that the target writes itself"),
            "order": Knob("asynchronous", choices=ORDERS, doc="each chain alone, or all in step"),
        },
        scores=lambda knobs: True,
        source="Xiong et al. 2025 (arXiv 2509.15148)",
    ),
)
