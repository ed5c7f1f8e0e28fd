"""Agents who hand tasks on from queue to queue: no message waits for another one's.

The hop is the tool `queue` of `programs.tools`: its seconds are the time that a message takes through a queue, and
without `concurrency` there is always room.

Source: Matrix (Wang et al. 2025, arXiv 2511.21686), section 3. Quality of answers depends on roles and prompts:
accuracy is not stated.
"""

from __future__ import annotations

from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.teams import KNOBS, team
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """A plan, and stages of agents."""
    return team(graph, work, knobs, "queue")


STRATEGIES.add(
    "peer_to_peer",
    Strategy(
        id="peer_to_peer",
        summary="stages of agents who hand tasks on from queue to queue",
        build=build,
        knobs=KNOBS,
        tools=("queue",),
        samples=lambda knobs: knobs["agents"],
        source="Wang et al. 2025, Matrix (arXiv 2511.21686)",
    ),
)
