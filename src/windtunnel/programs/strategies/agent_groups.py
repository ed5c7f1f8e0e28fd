"""Groups of agents: members who work one after another, and messages between groups that may be short and few.

A member reads the question, its role, what the members of its group wrote before it, and messages of agents of earlier
groups. Two things decide what those cost: which edges between groups there are, and how much of an answer a message
keeps. An edge is a wait too: without it an agent may begin before the other has ended. A last call reads the last
member of every group and decides.

Source: Chen et al. 2026, GoAgent (arXiv 2603.19677): groups as units of the topology, messages between them compressed.
How groups are chosen and what compressed messages lose is learned there: accuracy is not stated.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob

EDGES = 48
"""Stream of random numbers: which edges between groups there are."""


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Group by group, member by member, and the decision."""
    problems, questions = work.problems, work.questions(graph)
    earlier: list[Ints] = []
    lasts: list[Ints] = []
    for _ in range(knobs["groups"]):
        own: list[Ints] = []
        for _ in range(knobs["members"]):
            senders = _linked(work, knobs["links"], earlier)
            own.append(
                graph.call(
                    problems,
                    context=questions,
                    joined=np.stack(own, axis=1) if own else None,
                    new=knobs["role_tokens"] + messages(graph, senders, knobs["message_share"]),
                    output=work.answer_tokens(work.attempts(problems)),
                    after=senders,
                )
            )
        earlier += own
        lasts.append(own[-1])
    decided = graph.call(
        problems,
        context=questions,
        joined=np.stack(lasts, axis=1),
        new=knobs["role_tokens"],
        output=work.answer_tokens(work.attempts(problems)),
    )
    return Built(ends=graph.join(problems, after=np.stack([decided, *earlier], axis=1)))


def _linked(work: Workload, links: float, earlier: list[Ints]) -> Ints | None:
    """(P, K) agents of earlier groups that write to one agent; −1 where there is no edge."""
    if not earlier:
        return None
    wide = np.stack(earlier, axis=1)
    return np.where(work.random(EDGES).random(wide.shape) < links, wide, NONE)


def messages(graph: ProgramGraph, senders: Ints | None, share: float) -> Ints | int:
    """(P,) tokens of what (P, K) senders wrote, each cut to a share and to one token at least."""
    if senders is None:
        return 0
    written = graph["answer"][senders] - graph["prompt"][senders]
    kept = np.maximum(np.rint(share * written), 1).astype(np.int64)
    total: Ints = np.where(senders >= 0, kept, 0).sum(1)
    return total


STRATEGIES.add(
    "agent_groups",
    Strategy(
        id="agent_groups",
        summary="groups of agents in a row, with short or few messages between groups",
        build=build,
        knobs={
            "groups": Knob(3, 1, 1000, doc="groups in a row"),
            "members": Knob(3, 1, 1000, doc="agents of a group, one after another"),
            "links": Knob(1.0, 0.0, 1.0, doc="share of the edges between agents of different groups that there are"),
            "message_share": Knob(1.0, 0.0, 1.0, doc="share of an answer that a message between groups keeps"),
            "role_tokens": Knob(150, 0, 10**6, doc="tokens that name an agent's role"),
        },
        samples=lambda knobs: knobs["groups"] * knobs["members"],
        source="Chen et al. 2026 (arXiv 2603.19677)",
    ),
)
