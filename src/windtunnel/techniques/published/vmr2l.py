"""Which virtual machines to move, at most L of them, while machines come and go as one plans.

Moves join fragments of idle cores; a plan that comes late meets other machines, and its moves are void where theirs are
gone or the room is taken (`vm_moves`). A sampled policy with learned preferences answers at once,
the integer programme exactly and late.

Source: Ding et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Paper, Technique

TECHNIQUE = Technique(
    id="vmr2l",
    family="cluster-plan",
    summary="at most L moves of virtual machines that join fragments, while the state drifts as one plans",
    paper=Paper(
        "Towards VM Rescheduling Optimization Through Deep Reinforcement Learning",
        2025,
        "https://arxiv.org/abs/2505.17359",
        "Ding, Xianzhong and others",
        "EuroSys 2025",
    ),
    levels=(),
    kind="search",
    about=("cluster",),
    use="`windtunnel_lab.models.clusters.vm_moves`",
    status="partial",
    missing="memory beside cores, machines over two NUMA nodes, affinities; a transformer trained by PPO",
    experiment="vmr2l",
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
