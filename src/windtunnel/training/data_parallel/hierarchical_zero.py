"""Sharded tensors over several levels of a network: who gathers and scatters among whom, in how many bits.

Sources: Wang et al. 2023 (ZeRO++, arXiv 2306.10209), section 3, for a second copy inside the node and blocks of few
bits; Xu et al. 2025 (arXiv 2501.04266) for three levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.network.groups import GroupPlacement

if TYPE_CHECKING:
    from windtunnel.parallel.resolve import ResolvedPlan
    from windtunnel.training.stage_costs.stage_costs import StageCosts

SCALE_BYTES = 2.0 / 256
"""A 16-bit scale for each block of 256 values."""


def level_place(stages: StageCosts, plan: ResolvedPlan, size: int, outer: int = 1) -> GroupPlacement:
    """Groups of `size` neighbours along data parallelism, or of every `outer`-th rank."""
    return stages.mesh.strided(size, stages.mesh.strides["cp"] * outer)


def wire_bytes(bits: int) -> float:
    """Bytes of one value on its way, scales of small formats included."""
    return bits / 8.0 + (SCALE_BYTES if bits < 16 else 0.0)


def gather_passes(bits: int, ranks: float) -> float:
    """Bytes of device memory a gathered weight: a rank's shard is made small, all of them wide again."""
    return 0.0 if bits >= 16 else (2.0 + bits / 8.0) * (1.0 + 1.0 / ranks)


def reduce_passes(bits: int, ranks: float) -> float:
    """Bytes of device memory a gradient: made small before the exchange, widened and added up after it."""
    return 0.0 if bits >= 16 else (2.0 + bits / 8.0) + (bits / 8.0 + 4.0 / ranks)
