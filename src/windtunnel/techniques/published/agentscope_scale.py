"""AgentScope at scale: agents as actors whose calls do not wait for each other.

Source: Pan et al. 2024.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="agentscope-scale")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
