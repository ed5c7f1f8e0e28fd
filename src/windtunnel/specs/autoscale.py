"""Instances that come and go: what they are counted by, and how long they take to start."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import BytesPerS, Count, Inconsistent, Seconds, Spec


class ScalePlan(Spec):
    """One size of an instance."""

    tp: Count = 1
    """Tensor parallel ranks of an instance."""
    dp: Count = 1
    """Ranks of attention data parallelism of an instance."""
    ep: Count = 1
    """Expert parallel ranks of an instance."""

    @property
    def num_devices(self) -> int:
        """Devices of the instance."""
        return self.tp * self.dp


class AutoscaleSpec(Spec):
    """How many instances there are, decided again and again from what is measured."""

    method: Literal["replicas", "in_place", "restart"] = "replicas"
    """`replicas`: equal instances come and go. `in_place`: one instance grows over more devices while it serves, its
    weights and caches stay, what is missing moves from device to device. `restart`: it stops, and starts anew."""
    min: Count = 1
    """Fewest instances that run."""
    max: Count | None = None
    """`replicas`: required."""
    plans: tuple[ScalePlan, ...] = ()
    """`in_place`, `restart`: sizes of the instance, smallest first; it begins with the first."""
    signal: Literal["concurrency", "waiting", "kv_cache_usage", "rate"] = "concurrency"
    """Per instance (of the first plan's size): requests there, queued requests, share of the cache in use, requests a
    second since last time."""
    target: float = Field(gt=0)
    """Value of the signal that one instance should have: instances = ceil(instances · signal / target)."""
    tolerance: float = Field(default=0.1, ge=0)
    """Relative distance from the target within which nothing changes (Kubernetes: 0.1)."""
    interval_s: float = Field(default=15.0, ge=0.1)
    """Between two looks (Kubernetes: 15 s)."""
    cooldown_s: Seconds = 300.0
    """Instances go only where the most that was wanted within this time is less (Kubernetes: 300 s)."""
    start_up_s: Seconds | None = None
    """Seconds from the decision until an instance takes requests; absent: weights over the storage's rate, and the
    engine's start."""
    storage_bytes_per_s: BytesPerS | None = None
    """Rate at which one instance reads its weights; absent: assumed."""
    engine_start_s: Seconds | None = None
    """Container, process, warm-up, capture of graphs; absent: assumed."""
    p2p_bytes_per_s: BytesPerS | None = None
    """`in_place`: at which one device takes weights from others; absent: the cluster's scale-up link."""
    reconfigure_s: Seconds | None = None
    """`in_place`: groups of processes, remapped memory, warm-up of what was prepared; absent: assumed."""

    @model_validator(mode="after")
    def _bounds(self) -> AutoscaleSpec:
        problems = []
        grows = self.method != "replicas"
        if self.max is None and not grows:
            problems.append(Problem("max", "is required by method replicas"))
        elif self.max is not None and self.max < self.min:
            problems.append(Problem("max", f"must be at least min {self.min}", value=self.max))
        if grows and len(self.plans) < 2:
            problems.append(Problem("plans", f"of two sizes at least are required by method {self.method}"))
        unread: tuple[str, ...] = ("min", "max") if grows else ("plans",)
        if self.method != "in_place":
            unread += ("p2p_bytes_per_s", "reconfigure_s")
        for name in unread:
            if name in self.model_fields_set:
                problems.append(Problem(name, f"is not read by method {self.method}; leave it out"))
        sizes = [plan.num_devices for plan in self.plans]
        if sizes != sorted(set(sizes)):
            problems.append(Problem("plans", "must grow in devices, smallest first", value=sizes))
        if self.start_up_s is not None:
            for name in ("storage_bytes_per_s", "engine_start_s"):
                if getattr(self, name) is not None:
                    problems.append(Problem(name, "is not read with start_up_s; leave one out"))
        if problems:
            raise Inconsistent(problems)
        return self
