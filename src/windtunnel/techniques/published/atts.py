"""ATTS: drafts of a small model, verified chain by chain.

Each chain has a threshold of its own and goes on without waiting for the others of its problem.

What it costs: instances of a second model.

Source: Xiong et al. 2025 (arXiv 2509.15148).
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique
from windtunnel.techniques.programs_limits import ASSUMED

TECHNIQUE = Technique(
    id="atts",
    strategy="draft_rounds",
    knobs={
        "n": Knob(16, 1, 1024, doc="chains of a problem"),
        "rounds": Knob(8, 1, 1000, doc="chunks of a chain"),
        "rejected": Knob(0.2, 0.0, 1.0, doc="share of chunks that the target writes itself"),
    },
    edits=(("programs", "strategy draft_rounds"),),
    saves="chains that wait for others",
    resource="waiting",
    quality=ASSUMED,
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
