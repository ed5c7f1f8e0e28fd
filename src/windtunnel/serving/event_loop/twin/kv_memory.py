"""What the reference loop asks of KV tiers: levels of keys and values below the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.prefix_cache import PrefixCache
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


class Memory(Protocol):
    """KV tiers of all instances of a run (`kv_tiers.twin_memory`)."""

    def begin(self, instances: list[Instance]) -> None:
        """Prepare for a run of these instances."""

    def cache(self, one: Instance, size: Sequence[int]) -> PrefixCache | None:
        """Make the cache of an instance; None: it has no tiers below.

        Args:
            one: the instance.
            size: blocks of each node of the chains of content.
        """

    def arrived(self, one: Instance, q: Request, now: float) -> None:
        """Note at `now` seconds that a request is queued at an instance."""

    def seconds(self, one: Instance, compute_s: float, now: float) -> float:
        """Return the seconds of an iteration that computes for `compute_s`, with the loads of admitted requests."""
