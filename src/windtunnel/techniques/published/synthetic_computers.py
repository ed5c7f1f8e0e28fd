"""Synthetic Computers: runs of thousands of turns as a workload.

Source: Ge et al. 2026.
"""

from __future__ import annotations

from windtunnel.techniques.base import Knob, Technique

TECHNIQUE = Technique(
    id="synthetic-computers",
    strategy="long_horizon",
    knobs={
        "turns": Knob(2000, 1, 100_000, doc="turns of a session"),
        "result_tokens": Knob(900.0, 1.0, 1e7, doc="mean tokens that tools return in a turn"),
        "output_tokens": Knob(350.0, 1.0, 1e7, doc="mean tokens of a turn's answer"),
        "window": Knob(100_000, 0, 10**8, doc="tokens that a history may grow to; 0: without end"),
    },
    edits=(("programs", "strategy long_horizon"),),
    saves="nothing: it is a workload",
    resource="compute",
    quality="what runs achieve is not known here",
)
