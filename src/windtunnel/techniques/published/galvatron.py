"""Strategies of data, sharded, tensor and pipeline parallelism are chosen by a search under a memory limit.

`windtunnel plan` searches uniform plans, exactly and with a proof. Where each layer may have its own strategy,
`layer_strategies` finds the fastest assignment under memory by a dynamic programme over layers and
bytes, with the seconds of resharding activations between neighbours that differ.

Source: Miao et al. 2022, section on the dynamic programme; Galvatron: Automatic Distributed Training for Large
Transformer Models uses it with profilers.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="galvatron",
    family="cluster-plan",
    summary="a strategy for each layer by dynamic programming under a memory limit",
    paper=Paper(
        "Galvatron: Efficient Transformer Training over Multiple GPUs Using Automatic Parallelism",
        2022,
        "https://arxiv.org/abs/2211.13878",
        "Miao, Xupeng and others",
        "PVLDB 16(3)",
    ),
    levels=(),
    kind="search",
    about=("training",),
    use="`windtunnel plan` searches uniform plans, `layer_strategies` one strategy a layer",
    status="partial",
    missing="a simulated step whose layers differ (the search adds seconds of layers); choices made again at run time",
    experiment="galvatron",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
