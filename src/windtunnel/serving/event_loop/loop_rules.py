"""What a deployment puts in place of the reference loop's own rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.fleet_control import Control
    from windtunnel.serving.event_loop.twin.admission import Admission
    from windtunnel.serving.event_loop.twin.batch_policy import Policy
    from windtunnel.serving.event_loop.twin.execution import Execution
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.kv_memory import Memory
    from windtunnel.serving.event_loop.twin.queue import Queue
    from windtunnel.serving.event_loop.twin.router import Router
    from windtunnel.serving.speculation.acceptance import Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRules:
    """Rules of the reference loop; each that is absent is the one that the limits of the instances name."""

    policies: Sequence[Policy] | None = None
    """How each pool forms its batches, one policy a pool."""
    router: Router | None = None
    """Which instance takes a request in."""
    queue: Queue | None = None
    """Who is served first; absent: the lowest class, then the earliest arrival."""
    admission: Admission | None = None
    """Which requests are shed; absent: none."""
    pace: Pace | None = None
    """Tokens that a request makes in a step; absent: `Limits.tokens_per_step`."""
    control: Control | None = None
    """Who brings instances up and down; absent: all of them are up all the time."""
    memory: Memory | None = None
    """Levels of the KV cache below the device; absent: what is evicted is forgotten."""
    execution: Callable[[Instance], Execution | None] | None = None
    """How an instance computes what it has; absent or None: one iteration after the other."""
