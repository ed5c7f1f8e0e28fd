"""The time of a call to a model behind an API, as it would be on reference hardware that nobody else uses.

A call of p prompt and o output tokens takes a cost of the prompt plus o times a cost per token; both follow from the
architecture and a few profiled pairs. The least of repeated calls to a busy service leaves the noise out. Times
devices, it is the cost of a call.

Source: Narayanan et al. 2023.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="idealized-runtime")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
