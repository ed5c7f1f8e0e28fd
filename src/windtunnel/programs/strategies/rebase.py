"""Reward-balanced search over steps: the width is divided among steps by the softmax of their scores.

No closed form is known of how often it ends right: accuracy is that of the programs as they were drawn.

Source: Wu et al. 2024 (arXiv 2408.00724), REBASE.
"""

from __future__ import annotations

from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.tree import search
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.serving.traffic.trajectories.base import METHODS
from windtunnel.specs.trajectories import Trajectories
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Steps and their scores; a depth begins when all scores of the one before are there."""
    settings = Trajectories(method="rebase", width=knobs["n"], temperature=knobs["temperature"], steps=knobs["steps"])
    questions = work.questions(graph)
    found = search(graph, work, questions, work.problems, METHODS.get("rebase"), settings)
    return Built(ends=found.ends, right=found.right)


STRATEGIES.add(
    "rebase",
    Strategy(
        id="rebase",
        summary="search over steps whose width is divided by the softmax of a verifier's scores",
        build=build,
        knobs={
            "n": Knob(16, 1, 4096, doc="trajectories at once"),
            "steps": Knob(8, 1, 100, doc="steps of a trajectory"),
            "temperature": Knob(0.2, 0.001, 1000.0, doc="of the softmax"),
        },
        scores=lambda knobs: knobs["n"] > 1,
        source="Wu et al. 2024 (arXiv 2408.00724)",
    ),
)
