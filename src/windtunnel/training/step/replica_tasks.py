"""Where the tasks of a group of replicas are in a step program that is being built."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.arrays import Floats, Rows
from windtunnel.training.step.forward_backward_overlap import OverlappedPair
from windtunnel.training.step.instructions import Instructions
from windtunnel.training.step.replica_group import ReplicaGroup


@dataclass(frozen=True, slots=True)
class FinalReductions:
    """The gradient reductions that end a step: one for each piece of each virtual stage. Shapes (n,)."""

    ids: Rows
    virtual_stage: Rows
    piece: Rows
    key: Floats
    """Position in launch order."""
    pieces: Rows
    """(K,): pieces of each virtual stage."""


@dataclass(slots=True, kw_only=True)
class ReplicaTasks:
    """Tasks of a group of replicas. Ids count from `first_id`, stages from `first_stage`."""

    group: ReplicaGroup
    instructions: Instructions
    first_stage: int
    first_id: int
    compute: Rows
    """(t,): compute task of each piece."""
    finish: list[list[int]]
    """Tasks of each stage that its optimizer waits for."""
    reductions: FinalReductions | None = None
    pair_of: Rows | None = None
    """(n,): kind of pair that each instruction runs in, −1 for none; absent where no instructions run in pairs."""
    pairs: tuple[OverlappedPair, ...] = ()
