"""AgentTTS: models and samples for each stage of a task under one budget, found in few trials.

Source: Wang et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="agenttts")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
