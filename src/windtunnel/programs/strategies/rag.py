"""Answers from retrieved documents: k documents and shots in the prompt, once or in several iterations.

Each iteration writes a query, retrieves and reads. The effective context, k documents and the shots in every iteration,
is what a budget of compute is spent on.

Source: Yue et al. 2024, Inference scaling for long-context RAG (arXiv 2410.04343), sections 3 and 4: DRAG with one
iteration, IterDRAG with several. How accuracy rises with them is not known here and not stated.
"""

from __future__ import annotations

from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """A query, a retrieval and a reading in each iteration; the last reading is the answer."""
    problems, questions = work.problems, work.questions(graph)
    answer = work.answer_tokens(work.attempts(problems))
    documents = knobs["documents"] * knobs["document_tokens"]
    shots = knobs["shots"] * knobs["shot_tokens"]
    context, calls = questions, graph.call(problems, context=questions, output=knobs["query_tokens"])
    for i in range(knobs["iterations"]):
        found = graph.tool(
            problems,
            seconds=work.tool_seconds("retrieval", len(problems)),
            after=calls,
            server=work.tool_class("retrieval"),
        )
        last = i == knobs["iterations"] - 1
        calls = graph.call(
            problems,
            context=context,
            new=documents + (shots if i == 0 else 0),
            output=answer if last else knobs["query_tokens"],
            after=found,
        )
        context = calls
    return Built(ends=calls)


STRATEGIES.add(
    "rag",
    Strategy(
        id="rag",
        summary="k retrieved documents and shots in the prompt, in one or several iterations",
        build=build,
        knobs={
            "documents": Knob(10, 0, 100_000, doc="documents of a retrieval"),
            "document_tokens": Knob(200, 1, 10**6, doc="tokens of a document"),
            "shots": Knob(0, 0, 10_000, doc="demonstrations in the prompt"),
            "shot_tokens": Knob(300, 1, 10**6, doc="tokens of a demonstration"),
            "iterations": Knob(1, 1, 1000, doc="retrievals one after the other"),
            "query_tokens": Knob(24, 1, 10**6, doc="tokens of a query"),
        },
        tools=("retrieval",),
        samples=lambda _: 1,
        source="Yue et al. 2024 (arXiv 2410.04343)",
    ),
)
