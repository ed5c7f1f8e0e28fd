"""Heterogeneous agentic AI: nodes of an agent's graph on the device classes that keep its deadline at least rent.

Source: Asgar et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="hetero-agentic")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
