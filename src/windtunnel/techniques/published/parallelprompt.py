"""ParallelPrompt: the parts of a prompt as requests of their own behind shared text.

Source: Kolawole et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="parallelprompt",
    strategy="split_prompt",
    knobs={
        "items": Knob(5, 1, 10000, doc="parts of a prompt"),
        "schema_tokens": Knob(60, 0, 1000000, doc="tokens of the split"),
    },
    edits=(("programs", "strategy split_prompt"),),
    saves="decode steps one after the other",
    resource="memory bandwidth",
    quality="parts do not see each other's answers",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
