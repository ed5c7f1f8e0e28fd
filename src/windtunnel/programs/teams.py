"""Teams of agents: stages of agents side by side, whose messages pass through a dispatcher or from queue to queue."""

from __future__ import annotations

import numpy as np

from windtunnel.programs.strategy import Built, Knobs
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob

KNOBS = {
    "stages": Knob(3, 1, 1000, doc="stages one after the other"),
    "agents": Knob(4, 1, 1000, doc="agents of a stage, side by side"),
    "message_tokens": Knob(100, 0, 10**6, doc="tokens that are added to each agent's prompt"),
}


def team(graph: ProgramGraph, work: Workload, knobs: Knobs, hop: str) -> Built:
    """A plan, then stages of agents who each read all answers of the stage before; every message is one hop.

    Args:
        graph: gets the nodes.
        work: the problems.
        knobs: those of `KNOBS`.
        hop: tool that carries a message; with `concurrency: 1` one message at a time.
    """
    problems, questions = work.problems, work.questions(graph)
    server = work.tool_class(hop)

    def tokens() -> np.ndarray:
        return work.answer_tokens(work.attempts(problems))

    before = [graph.call(problems, context=questions, output=tokens())]
    for _ in range(knobs["stages"]):
        texts = np.stack(before, axis=1)
        stage = []
        for _ in range(knobs["agents"]):
            sent = graph.tool(problems, seconds=work.tool_seconds(hop, len(problems)), after=texts, server=server)
            stage.append(
                graph.call(
                    problems,
                    context=questions,
                    joined=texts,
                    new=knobs["message_tokens"],
                    output=tokens(),
                    after=sent,
                )
            )
        before = stage
    return Built(ends=graph.join(problems, after=np.stack(before, axis=1)))
