"""Benchmark scores of processors from the features of their data sheets.

Cores, clocks, watts, cache and channels of a processor and what a benchmark asks for give a score with knees; a learned
model reads the features (`cpu_score`).

Source: Liu et al. 2024.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="ncpp")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
