"""Several answers to one prompt: samples, beams, trees that a reward model prunes."""

from __future__ import annotations

from pydantic import Field

from windtunnel.specs.base import Count, Seconds, Spec
from windtunnel.specs.lengths import Lengths


class Trajectories(Spec):
    """Trajectories of one prompt. They share its blocks, and those of the steps that they have in common."""

    method: str = "samples"
    """How they branch: samples (best of n, majority votes), beam, rebase, ets."""
    width: Count
    """Trajectories at once: those that have reached an answer count."""
    steps: Count | Lengths = 1
    """Steps of a trajectory; `output_tokens` are those of one step."""
    score_s: Seconds = 0.0
    """Seconds from the end of all trajectories' steps to the next ones: scores of a reward model, selection."""
    score_correlation: float = Field(default=0.7, ge=0, le=1)
    """Correlation between a step's score and that of the step before it; scores lie evenly from 0 to 1."""
    keep: Count | None = None
    """beam: trajectories that go on, each as width / keep; absent: the square root of the width."""
    temperature: float = Field(default=0.2, gt=0)
    """rebase, ets: of the softmax of scores that divides the width."""
    node_cost: float = Field(default=1.0, ge=0)
    """ets: weight of the share of nodes that are kept (λ_b)."""
    coverage: float = Field(default=1.0, ge=0)
    """ets: weight of the share of meanings that are kept (λ_d)."""
    meanings: float = Field(default=1.0, gt=0)
    """ets: how many different things the steps of a depth say: the concentration of a Chinese restaurant process; of n
    steps about `meanings`·ln(1 + n / `meanings`) differ."""
    latency_s: Seconds | None = None
    """Objective of a whole search."""
