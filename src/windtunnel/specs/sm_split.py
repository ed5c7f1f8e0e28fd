"""Prompts and answers on the same devices, each with a share of the SMs of its own."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.specs.base import Seconds, Spec


class SmSplitSpec(Spec):
    """`sm_split:` of a pool: a process for prompts and one for answers, one set of weights, one cache."""

    prefill_share: float = Field(default=0.5, gt=0, lt=1)
    """Of the SMs, for prompts; where it moves, at the start."""
    controller: Literal["fixed", "slo"] = "fixed"
    """`slo`: the share moves towards the phase that is further from its objective."""
    period_s: Seconds = Field(default=5.0, gt=0)
    """Between two looks at the objectives."""
    step: float = Field(default=0.1, gt=0, lt=1)
    """What the share moves by."""
    switch_s: Seconds = 0.01
    """Both processes stand still while shares change."""
