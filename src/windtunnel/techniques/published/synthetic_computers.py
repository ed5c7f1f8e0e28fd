"""Synthetic Computers: runs of thousands of turns as a workload.

Source: Ge et al. 2026.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Paper, Technique

TECHNIQUE = Technique(
    id="synthetic-computers",
    family="agents",
    summary="runs of thousands of turns over a history that is summed up as it grows",
    paper=Paper(
        "Synthetic Computers at Scale for Long-Horizon Productivity Simulation",
        2026,
        "https://arxiv.org/abs/2604.28181",
        "Ge, Peng, Cheng, Gao",
        "arXiv 2604.28181",
    ),
    levels=("programs",),
    status="partial",
    missing="the synthetic computers themselves, and what agents learn from the runs: it is a workload",
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
    experiment="synthetic_computers",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
