"""Debate: agents answer, read the answers of the others, and answer again, round by round.

Every agent keeps its own history; a round's prompts hold the last answers of all others, so tokens grow with the square
of the number of agents.

Source: Du et al. 2023, Improving factuality and reasoning through multiagent debate (arXiv 2305.14325). What
debate adds to a vote over the same answers is not known of a population of attempts: accuracy is not stated.
"""

from __future__ import annotations

import numpy as np

from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """All agents of a round side by side; the end is the last answer of the last round."""
    agents, problems, questions = knobs["agents"], work.problems, work.questions(graph)

    def answers() -> np.ndarray:
        return work.answer_tokens(work.attempts(problems))

    last = [graph.call(problems, context=questions, output=answers()) for _ in range(agents)]
    for _ in range(knobs["rounds"] - 1):
        last = [
            graph.call(
                problems,
                context=last[a],
                joined=np.stack([last[b] for b in range(agents) if b != a], axis=1) if agents > 1 else None,
                new=knobs["instruction_tokens"],
                output=answers(),
            )
            for a in range(agents)
        ]
    return Built(ends=graph.join(problems, after=np.stack(last, axis=1)))


STRATEGIES.add(
    "debate",
    Strategy(
        id="debate",
        summary="agents answer, read each other's answers and answer again",
        build=build,
        knobs={
            "agents": Knob(3, 1, 1000, doc="agents of a problem"),
            "rounds": Knob(2, 1, 1000, doc="answers of each agent"),
            "instruction_tokens": Knob(60, 0, 10**6, doc="tokens that ask for the next answer"),
        },
        samples=lambda knobs: knobs["agents"],
        source="Du et al. 2023 (arXiv 2305.14325)",
    ),
)
