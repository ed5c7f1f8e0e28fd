"""Reranking by several criteria: one call finds criteria, one scores all candidates by each, one answers with the best.

Each criterion lengthens the reasoning of the reranking call by its own tokens, and each further turn is a call that
reads all turns before it. What criteria do to answers is not modelled: no accuracy is stated.

Source: LeVine and Varjavand 2025 (arXiv 2504.07104), REBEL.
"""

from __future__ import annotations

import numpy as np

from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Candidates lie in the prompt of the reranker; its last turn's choice goes to the answer."""
    count, candidates, each = len(work.problems), knobs["candidates"], knobs["candidate_tokens"]
    questions = work.questions(graph)
    documents = graph.text(work.problems, np.full(count, candidates * each), context=questions)
    output = np.full(count, max(candidates * knobs["criteria"] * knobs["score_tokens"], 1))
    at = documents
    for _ in range(knobs["turns"]):
        at = graph.call(work.problems, context=at, output=output)
    kept = np.full(count, min(knobs["kept"], candidates) * each)
    answers = work.answer_tokens(work.attempts(work.problems))
    return Built(ends=graph.call(work.problems, context=questions, new=kept, output=answers, after=at))


STRATEGIES.add(
    "multi_criteria_rerank",
    Strategy(
        id="multi_criteria_rerank",
        summary="retrieved candidates scored by several criteria in chain of thought, then the answer",
        build=build,
        knobs={
            "candidates": Knob(10, 1, 10_000, doc="documents that are reranked"),
            "candidate_tokens": Knob(200, 1, 1_000_000, doc="tokens of a document"),
            "criteria": Knob(1, 0, 100, doc="criteria besides the question; 0: order alone"),
            "score_tokens": Knob(20, 1, 10_000, doc="tokens of reasoning for a document and a criterion"),
            "turns": Knob(1, 1, 100, doc="calls of the reranker, each of which reads those before"),
            "kept": Knob(3, 1, 10_000, doc="documents that the answer reads"),
        },
        samples=lambda knobs: 1.0,
        source="LeVine and Varjavand 2025 (arXiv 2504.07104)",
    ),
)
