"""Accuracy a watt and a joule of models on local and cloud accelerators, and a router between them.

Watts and joules of a query come from `serve`; a router sends a query to the local model where it expects a right
answer, and the cloud answers the rest (`intelligence_per_watt`).

Source: Saad-Falcon et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="intelligence-per-watt")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
