"""What data parallelism and pipelines send in place of whole tensors, and how often replicas meet."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.specs.base import Count, Spec

Kind = Literal["quantised", "ternary", "low_rank", "sparse", "sketch"]


class GradientCompression(Spec):
    """What stands for a gradient on its way. Each kind costs its own kernels; all but wide formats lose something."""

    kind: Kind = "quantised"
    """`quantised`: integers of `bits` with a scale a block. `ternary`: minus one, zero or one times a scale that all
    ranks share, so that sums are small integers. `low_rank`: two thin factors of every matrix. `sparse`: the largest
    entries with their positions. `sketch`: the largest entries added into fewer cells, from which a common map of
    positions recovers their sums."""
    bits: float = Field(default=8.0, ge=1, le=16)
    """`quantised`: bits of one value; `ternary`: bits of one value on its way out (2 packed, 1.6 five in a byte)."""
    block: Count | None = 256
    """`quantised`: values that share a 32-bit scale; null: one scale a tensor, which is one more pass over it."""
    rank: Count = 4
    """`low_rank`: columns of each factor."""
    density: float = Field(default=0.01, gt=0, le=1)
    """`sparse`, `sketch`: share of the entries that are kept."""
    shared_positions: bool = False
    """`sparse`: all ranks keep the same entries, drawn from one seed: their values add up and no positions are sent."""
    cells: float = Field(default=1.5, ge=1, le=16)
    """`sketch`: cells for each entry that is kept anywhere."""
    position_bits: int = Field(default=1, ge=1, le=8)
    """`sketch`: bits of the map of positions, for each entry of the tensor."""
    between: Literal["ranks", "nodes", "levels"] = "ranks"
    """Who exchanges compressed gradients: all ranks; peers of different scale-up domains, after whole gradients have
    been added inside each (and before they are gathered there); or these and, before them, the ranks of a domain."""
    error_feedback: bool = False
    """Whether what was lost is kept, in 32 bits, and added to the next gradient."""
    share: float = Field(default=1.0, ge=0, le=1)
    """Share of the weights whose gradients are compressed; gradients of the others travel whole."""
    by_operator: dict[str, float] = {}
    """Bits, rank or density of single operators (`qkv`, `fc1`, `embedding` …) where not as for all."""


class Compression(Spec):
    """Compressed communication. What is absent travels as the framework sends it."""

    gradients: GradientCompression | None = None
    """How gradients are compressed on their way between data-parallel ranks; absent: not at all."""
    gather_bits: float | None = Field(default=None, ge=1, le=32)
    """Bits of a weight in the gathers of ZeRO and FSDP; 16 and more are a cast, and 32 is that of a master copy."""
    gather_block: Count = 1024
    """Weights that share a 32-bit scale, where they have fewer than 16 bits."""
    hop_bits: float | None = Field(default=None, ge=1, le=16)
    """Bits of an activation, or of its gradient, between pipeline stages."""
    hop_block: Count = 256
    """Activations that share a 32-bit scale."""


class LocalSteps(Spec):
    """Replicas that step on their own gradients and average what they have become once a round."""

    steps: Count = 1
    """Steps of a round."""
    late: bool = False
    """Whether the average of one round is used at the end of the next, and travels next to its steps."""
    momentum: bool = True
    """Whether the average goes through a momentum of its own (32 bits a weight)."""
