"""A row of filters between a detector and its disks: power, cost and yield of what passes each stage.

Each stage keeps the events that score highest; what it drops costs nothing later, so that skill, bytes and joules of
the early stages decide. The model is `filter_pipeline`.

Source: Olin-Ammentorp, Wu and Chien 2024.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="hep-daq-model")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
