"""Multiverse: map, process, reduce inside one engine, with the KV of all branches kept.

The parent writes what the subtasks are (map), branches decode in parallel from its KV (process), and the parent goes on
from the KV of all of them without computing their text again (reduce). With one branch it is serial generation.

Source: Yang et al. 2025, Multiverse (arXiv 2506.09991), section 4. How much such a model's answers gain or lose is not
known beyond its own benchmark: accuracy is not stated.
"""

from __future__ import annotations

from windtunnel.programs.forks import KNOBS, Fork, forked
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """One answer of each problem."""
    tokens = work.answer_tokens(work.attempts(work.problems))
    return Built(ends=forked(graph, work, tokens, Fork(**knobs, reuse=True)))


STRATEGIES.add(
    "multiverse",
    Strategy(
        id="multiverse",
        summary="one answer with parallel branches whose KV is merged without computing it again",
        build=build,
        knobs=KNOBS,
        samples=lambda _: 1,
        source="Yang et al. 2025, Multiverse (arXiv 2506.09991)",
    ),
)
