"""A data-intensive job goes to the site where a learned model predicts that it ends first.

Links, round trips and load of each candidate are measured, completion is regressed from them, and the least wins; a
scheduler that looks at processors alone sends jobs behind full links (`site_completion`).

Source: Timilsina and Shannigrahi 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="network-aware-supervised-sched")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
