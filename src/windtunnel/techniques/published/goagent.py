"""GoAgent: groups of agents as units of a topology, with short messages between groups.

Source: Chen et al. 2026.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="goagent",
    family="agents",
    summary="agents in groups, whose messages to other groups are short and few",
    paper=Paper(
        "GoAgent: Group-of-Agents Communication Topology Generation for LLM-based Multi-Agent Systems",
        2026,
        "https://arxiv.org/abs/2603.19677",
        "Chen, Zheng, Liu, Jiao, Li, Liu and others",
        "arXiv 2603.19677",
    ),
    levels=("programs",),
    status="partial",
    missing="which groups are chosen, and what compressed messages lose: shares of messages and edges are inputs",
    strategy="agent_groups",
    knobs={
        "groups": Knob(3, 1, 1000, doc="groups in a row"),
        "members": Knob(3, 1, 1000, doc="agents of a group, one after another"),
        "links": Knob(1.0, 0.0, 1.0, doc="share of the edges between agents of different groups that there are"),
        "message_share": Knob(0.6, 0.0, 1.0, doc="share of an answer that a message between groups keeps"),
    },
    edits=(("programs", "strategy agent_groups"),),
    saves="prompt tokens, and waits",
    resource="compute",
    quality="what shorter messages lose is not known here",
    experiment="goagent",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
