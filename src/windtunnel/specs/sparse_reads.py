"""Weights that an engine skips while serving, as what they would be multiplied with is zero."""

from __future__ import annotations

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Inconsistent, Spec


class SparseReadsSpec(Spec):
    """Feed-forward networks with a ReLU, and heads of which a predictor chooses rows."""

    neurons: float = Field(default=1.0, gt=0, le=1)
    """Share of a feed-forward network's neurons that a token leaves above zero: what comes before the activation (the
    gate, where there is one) is computed whole, then of everything else these rows alone."""
    head: float = Field(default=1.0, gt=0, le=1)
    """Share of the head's rows that are computed for a token."""
    predictor_rank: int = Field(default=0, ge=0)
    """Width between the two products that choose these rows, hidden to rank to vocabulary; 0: nothing chooses."""

    @model_validator(mode="after")
    def _chosen(self) -> SparseReadsSpec:
        if (self.head < 1.0) != (self.predictor_rank > 0):
            rule = "goes with a head below 1, and a head below 1 with it: two products choose its rows"
            raise Inconsistent([Problem("predictor_rank", rule, value=self.predictor_rank)])
        return self
