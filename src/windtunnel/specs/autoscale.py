"""Instances that come and go: what they are counted by, and how long they take to start."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import BytesPerS, Count, Inconsistent, Seconds, Spec


class AutoscaleSpec(Spec):
    """How many instances there are, decided again and again from what is measured."""

    min: Count = 1
    max: Count
    signal: Literal["concurrency", "waiting", "kv_cache_usage", "rate"] = "concurrency"
    """Per instance: requests there, requests in line, share of the cache in use, requests a second since last time."""
    target: float = Field(gt=0)
    """Value of the signal that one instance should have: instances = ceil(instances · signal / target)."""
    tolerance: float = Field(default=0.1, ge=0)
    """Relative distance from the target within which nothing changes (Kubernetes: 0.1)."""
    interval_s: float = Field(default=15.0, gt=0)
    """Between two looks (Kubernetes: 15 s)."""
    cooldown_s: Seconds = 300.0
    """Instances go only where the most that was wanted within this time is less (Kubernetes: 300 s)."""
    start_up_s: Seconds | None = None
    """From the decision until an instance takes requests; absent: weights over the storage's rate, and the engine's
    start."""
    storage_bytes_per_s: BytesPerS | None = None
    """At which one instance reads its weights; absent: assumed."""
    engine_start_s: Seconds | None = None
    """Container, process, warm-up, capture of graphs; absent: assumed."""

    @model_validator(mode="after")
    def _bounds(self) -> AutoscaleSpec:
        problems = []
        if self.max < self.min:
            problems.append(Problem("max", f"must be at least min {self.min}", value=self.max))
        if self.start_up_s is not None:
            for name in ("storage_bytes_per_s", "engine_start_s"):
                if getattr(self, name) is not None:
                    problems.append(Problem(name, "is not read beside start_up_s; leave one out"))
        if problems:
            raise Inconsistent(problems)
        return self
