"""GoAgent: groups of agents as units of a topology, with short messages between groups.

Source: Chen et al. 2026.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="goagent",
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
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
