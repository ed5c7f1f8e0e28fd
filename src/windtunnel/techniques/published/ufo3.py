"""UFO^3: a request as a graph of subtasks on several endpoints.

Source: Zhang et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="ufo3")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
