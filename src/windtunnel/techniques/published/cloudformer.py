"""The slow-down of a black-box machine by its neighbours, from series of one sample a second.

Machines share a host's cache, memory rate and port; a predictor learned from simulated hosts reads what a hypervisor
sees (`interference`), for workloads that it has not seen.

Source: Shahbazinia et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="cloudformer")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
