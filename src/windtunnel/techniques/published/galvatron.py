"""Strategies of data, sharded, tensor and pipeline parallelism are chosen by a search under a memory limit.

`windtunnel plan` searches uniform plans, exactly and with a proof. Where each layer may have its own strategy,
`layer_strategies` finds the fastest assignment under memory by a dynamic programme over layers and
bytes, with the seconds of resharding activations between neighbours that differ.

Source: Miao et al. 2022, section on the dynamic programme; Galvatron: Automatic Distributed Training for Large
Transformer Models uses it with profilers.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="galvatron")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
