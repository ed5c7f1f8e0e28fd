"""Agents under one orchestrator: every message passes through its event loop, one at a time.

The orchestrator is the tool `orchestrator` of `programs.tools`; its seconds are those that it works on a message, its
`concurrency` is 1 for one event loop. Beyond 1 / seconds messages a second, programs wait for it, not for the models.

Source: Matrix (Wang et al. 2025, arXiv 2511.21686), section 2: what centralised orchestration costs. Quality of answers
depends on roles and prompts: accuracy is not stated.
"""

from __future__ import annotations

from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.teams import KNOBS, team
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """A plan, and stages of agents."""
    return team(graph, work, knobs, "orchestrator")


STRATEGIES.add(
    "orchestrator",
    Strategy(
        id="orchestrator",
        summary="stages of agents whose messages pass through one orchestrator",
        build=build,
        knobs=KNOBS,
        tools=("orchestrator",),
        samples=lambda knobs: knobs["agents"],
        source="Wang et al. 2025, Matrix (arXiv 2511.21686)",
    ),
)
