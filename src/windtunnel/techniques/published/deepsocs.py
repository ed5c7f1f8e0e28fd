"""Task graphs on unlike processing elements: a learned rank chooses late, HEFT plans at arrival.

HEFT's plan rests on expected times and keeps its order when they are wrong; a rank that decides when an element falls
free follows what has happened (`task_graphs`).

Source: Sung et al. 2020; HEFT: Topcuoglu et al. 2002.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="deepsocs")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
