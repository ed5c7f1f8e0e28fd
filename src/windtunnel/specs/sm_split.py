"""Prompts and answers on the same devices, each with a share of the SMs of its own."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Inconsistent, Seconds, Spec


class SmSplitSpec(Spec):
    """`sm_split:` of a pool: a process for prompts and one for answers, one set of weights, one cache."""

    prefill_share: float = Field(default=0.5, gt=0, le=1)
    """Most of the SMs that prompts take; where it moves, at the start."""
    decode_share: float | None = Field(default=None, gt=0, le=1)
    """Most of the SMs that answers take; with `prefill_share` it may add up to more than all, and what one phase
    leaves idle the other then takes. Absent: what prompts leave, also while no prompt runs."""
    controller: Literal["fixed", "slo"] = "fixed"
    """`slo`: the share moves towards the phase that is further from its objective."""
    period_s: Seconds = Field(default=5.0, gt=0)
    """Between two looks at the objectives."""
    step: float = Field(default=0.1, gt=0, lt=1)
    """What the share moves by."""
    switch_s: Seconds = 0.01
    """Both processes stand still while shares change."""

    def for_answers(self, prefill_share: float) -> float:
        """Most of the SMs that answers take next to a share of prompts."""
        return 1.0 - prefill_share if self.decode_share is None else self.decode_share

    @model_validator(mode="after")
    def _some_for_both(self) -> SmSplitSpec:
        if self.prefill_share == 1.0 and self.decode_share is None:
            rule = "must be below 1 without decode_share: answers take the rest"
            raise Inconsistent([Problem("prefill_share", rule, value=1.0)])
        return self
