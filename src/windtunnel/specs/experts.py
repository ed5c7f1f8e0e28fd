"""How unevenly a mixture's experts are drawn while serving."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import BytesPerS, Count, Inconsistent, Spec


class ExpertLoadSpec(Spec):
    """How unevenly routed experts are drawn, in place of `expert_skew`, and what is done about it."""

    popularity: float = Field(default=0.3, ge=0, le=2)
    """Exponent of Zipf's law over the experts: 0 draws all alike; 0.3 the first of 256 four times the mean."""
    eplb: bool = False
    """Experts are placed by their load, and hot ones have copies."""
    num_redundant_experts: int = Field(default=0, ge=0)
    """Copies next to one of each expert, over all ranks of a layer."""
    step_interval: Count = 3000
    """Iterations between two placements."""
    affinity: float = Field(default=0.0, ge=0, le=5)
    """What a token's expert in one layer says of its expert in the next: exponent of Zipf's law over successors."""
    placement: Literal["number", "affinity", "near"] = "number"
    """Experts on ranks in the order of their numbers; so that tokens find their next expert where they are; or, with
    eplb on a mesh or torus (`cluster.scale_out.topology`, `fabric.shape`), so that copies are near all ranks."""
    coherent: bool = False
    """Every rank keeps the caches of all sequences: a token stays where its expert was, one exchange a layer in place
    of two; new keys and values are gathered once an iteration."""

    @model_validator(mode="after")
    def _copies(self) -> ExpertLoadSpec:
        if self.num_redundant_experts and not self.eplb:
            rule = "needs eplb: true, which says where copies go"
            raise Inconsistent([Problem("num_redundant_experts", rule, value=self.num_redundant_experts)])
        if self.placement == "affinity" and self.eplb:
            raise Inconsistent([Problem("placement", "must be number or near with eplb: true, which places by load")])
        if self.placement == "near" and not self.eplb:
            raise Inconsistent([Problem("placement", "near needs eplb: true, which places by load")])
        return self


class ExpertStorageSpec(Spec):
    """Routed experts of which only some are in memory; the others are read from drives when a token needs them."""

    cached: float = Field(ge=0, le=1)
    """Share of their weights that stays in memory."""
    hits: float | None = Field(default=None, ge=0, le=1)
    """Share of what tokens need that is found there; absent: as `cached` (experts drawn alike)."""
    bytes_per_s: BytesPerS = Field(gt=0)
    """Reads of the drives, for one device."""
