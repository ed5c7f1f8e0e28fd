"""SEDM: how many entries of a memory a program reads.

Source: Xu et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="sedm")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
