"""Tasks of agents as programs: each is a graph of calls whose prompts are built from the answers of earlier calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.machine_memory import require_bytes
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.traffic.arrivals import stream
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.serving.traffic.program_template import Step, add
from windtunnel.serving.traffic.single_source import sent
from windtunnel.specs.traffic import Agent, TrafficSpec

WHICH = 13
"""Stream of random numbers next to a seed."""
_BYTES_A_CALL = 3000.0
"""Memory of a call: its columns, and the object that the reference loop makes of it."""


def steps(agent: Agent) -> list[Step]:
    """Calls in order; of a repeated call, each goes on from the one before."""
    last: dict[str, int] = {}
    out: list[Step] = []
    for call in agent.calls:
        parents = tuple(last[name] for name in call.after)
        for k in range(call.repeat):
            history = k > 0 or (call.context == "history" and bool(parents))
            out.append(
                Step(
                    kind="call",
                    parents=parents,
                    context="history" if history else "fresh",
                    input_tokens=call.input_tokens,
                    output_tokens=call.output_tokens,
                    seconds=call.tool_s,
                    seconds_law=call.tool_distribution,
                )
            )
            parents = (len(out) - 1,)
        last[call.id] = len(out) - 1
    return out


def draw(spec: TrafficSpec, seed: int) -> tuple[Requests, tuple[tuple[str, Any, str], ...]]:
    """Draw the calls of all tasks, task by task.

    Args:
        spec: traffic with agents.
        seed: seed of the random numbers.

    Returns:
        Requests with `after`, `content` and the agent's number as `tenant`; first calls have their times, the others
        nan. Nothing is assumed.

    Raises:
        BadInput: a prompt would grow beyond what a request can hold.
    """
    at_s = sent(spec, seed, spec.num_requests, 1.0)
    shares = np.array([one.share for one in spec.agents])
    which = stream(seed, WHICH).choice(len(shares), len(at_s), p=shares / shares.sum())
    templates = [steps(one) for one in spec.agents]
    count = int(np.array([len(own) for own in templates])[which].sum())
    require_bytes(_BYTES_A_CALL * count, "serving.traffic.num_requests", f"{count:,} calls of {len(at_s):,} tasks")
    graph = ProgramGraph(at_s)
    for a, agent in enumerate(spec.agents):
        system = graph.shared_text(agent.system_tokens) if agent.system_tokens else NONE
        if (tasks := np.flatnonzero(which == a)).size:
            add(graph, tasks, templates[a], system, seed=seed, number=a)
    requests = graph.finish().requests
    objectives = np.array([one.latency_s or np.inf for one in spec.agents])
    requests.deadline_s = objectives[requests.tenant]
    return requests, ()
