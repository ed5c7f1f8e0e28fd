"""Prefill token equivalents: prompts computed again after pauses, and decode steps over long contexts, in one count.

Source: Su et al. 2026.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="pte-tool-reasoning")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
