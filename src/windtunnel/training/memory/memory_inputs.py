"""Inputs of the memory model: the parts of a resolved step on which its tensors depend."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.schedules.table import InstructionTable
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.stage_costs.stage_costs import StageCosts


@dataclass(frozen=True, slots=True)
class MemoryInputs:
    """One step on one cluster, as far as the memory of its stages depends on it."""

    costs: StageCosts
    """Blocks and virtual stages."""
    plan: ResolvedPlan
    """Sizes of the parallel axes and policies."""
    training: TrainingSpec
    """Optimizer and precision."""
    framework: Behaviour
    """How the framework allocates."""
    schedule: InstructionTable
    """The pipeline schedule."""
