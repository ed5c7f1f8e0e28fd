"""Loads are migrated between nodes where the overload saved is worth the bytes that moving copies.

A live migration copies memory and then what was written meanwhile, round after round, so that loads that write much are
dear to move. The search takes moves by overload saved less the price of their bytes, greedy by size alone
(`migrations`).

Source: Sliwko 2025; migration rounds: Clark et al. 2005.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="intelligent-lb-cloud")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
