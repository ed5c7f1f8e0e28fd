"""Which virtual machines to move, at most L of them, while machines come and go as one plans.

Moves join fragments of idle cores; a plan that comes late meets other machines, and its moves are void where theirs are
gone or the room is taken (`vm_moves`). A sampled policy with learned preferences answers at once,
the integer programme exactly and late.

Source: Ding et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="vmr2l")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
