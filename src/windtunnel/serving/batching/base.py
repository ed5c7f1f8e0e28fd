"""A policy: switches of the jitted loop, and hooks that the reference loop runs.

A policy that only sets switches runs in the jitted loop. One that overrides a hook (`admit`, `fits`, `form_batch`,
`preempt`) is run by the twin, which is slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from windtunnel.registry import Registry
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.twin.batch_policy import Policy

HOOKS = ("admit", "fits", "form_batch", "preempt")


class BatchPolicy(Policy):
    """What a file of this package registers."""

    id: ClassVar[str] = ""
    title: ClassVar[str] = ""
    source: ClassVar[str] = ""
    switches: ClassVar[Mapping[str, Any]] = {}
    """Fields of `Limits` that it sets."""
    reserves_longest: ClassVar[bool] = False
    """Whether a request takes the blocks of the longest answer that the engine allows, not of its own."""
    watermark: ClassVar[float] = 0.0
    """Share of blocks that stays free when a request is admitted next to others."""

    @classmethod
    def jitted(cls) -> bool:
        """Whether its switches say everything."""
        return all(getattr(cls, name) is getattr(Policy, name) for name in HOOKS)


POLICIES: Registry[type[BatchPolicy]] = Registry("policies", package="windtunnel.serving.batching", noun="policy")


def limits_of(policy: type[BatchPolicy], limits: Limits) -> Limits:
    """Limits with a policy's switches and its share of blocks that stays free."""
    return replace(limits, **dict(policy.switches), watermark=int(policy.watermark * limits.blocks))
