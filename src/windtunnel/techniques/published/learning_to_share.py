"""Learning to Share: a memory that parallel teams of agents share, with learned admission.

Source: Fioresi et al. 2026.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="learning-to-share",
    strategy="shared_memory",
    knobs={
        "teams": Knob(4, 1, 100, doc="teams side by side"),
        "steps": Knob(20, 1, 1000, doc="steps of a team"),
        "overlap": Knob(0.5, 0.0, 1.0, doc="share of steps about sub-problems that other teams may meet"),
        "admission": Knob(0.1, 0.0, 1.0, doc="share of useless steps that are admitted; 0: no memory"),
        "separation": Knob(1.5, 0.0, 20.0, doc="of the controller's scores of useful and useless steps"),
    },
    edits=(("programs", "strategy shared_memory"),),
    saves="steps that another team has done",
    resource="compute",
    quality="what sharing does to success is not known here",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
