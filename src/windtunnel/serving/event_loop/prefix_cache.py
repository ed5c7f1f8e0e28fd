"""The content of one instance's cache, for the reference loop: nodes of chains, their holders, the order of release."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.request import Request


class PrefixCache:
    """Nodes by number. Blocks of nodes that somebody holds are in use; the others are free, but found until evicted."""

    def __init__(self, size: Sequence[int]) -> None:
        self.size = size
        self.resident = [0] * len(size)
        self.holders = [0] * len(size)
        self.free: OrderedDict[int, None] = OrderedDict()
        """Nodes that nobody holds, from the one let go first."""
        self.cached = 0
        """Their blocks."""

    def find(self, chain: Sequence[int]) -> tuple[int, int, int]:
        """Blocks of a chain that are there, those of them that nobody holds, and how many nodes they span."""
        found = free = 0
        for count, u in enumerate(chain):
            here = self.resident[u]
            if self.size[u] and not here:
                return found, free, count
            found += here
            free += 0 if self.holders[u] else here
            if here < self.size[u]:
                return found, free, count + 1
        return found, free, len(chain)

    def reusable(self, q: Request, block: int) -> int:
        """Tokens of a request that need not be computed."""
        return self.find(q.chain)[0] * block

    def fetch(self, q: Request, block: int, now: float) -> None:
        """A request is admitted: bring what it reuses to the device."""

    def hold(self, chain: Sequence[int]) -> int:
        """One more request holds these nodes; returns the blocks that are in use by that."""
        used = 0
        for u in chain:
            if not self.holders[u] and self.resident[u]:
                del self.free[u]
                self.cached -= self.resident[u]
                used += self.resident[u]
            self.holders[u] += 1
        return used

    def register(self, chain: Sequence[int], held: int, done: int) -> tuple[int, int, int]:
        """A request has computed its first `done` blocks.

        Returns:
            how many nodes it holds now, blocks that were its own and are the nodes' now, blocks newly in use.
        """
        gained = used = 0
        for j, u in enumerate(chain):
            here = min(done, self.size[u])
            if j >= held:
                if here <= 0 < self.size[u]:
                    break
                used += self.hold([u])
                held = j + 1
            gained += max(here - self.resident[u], 0)
            self.resident[u] = max(here, self.resident[u])
            if here < self.size[u]:
                break
            done -= self.size[u]
        return held, gained, used

    def release(self, chain: Sequence[int]) -> int:
        """A request lets nodes go, the last first; returns the blocks that are no more in use."""
        used = 0
        for u in reversed(chain):
            self.holders[u] -= 1
            if not self.holders[u] and self.resident[u]:
                self.free[u] = None
                self.cached += self.resident[u]
                used += self.resident[u]
        return used

    def forget(self, chain: Sequence[int]) -> None:
        """Drop the nodes of a chain that nobody holds."""
        for u in reversed(chain):
            if not self.holders[u] and self.resident[u]:
                del self.free[u]
                self.cached -= self.resident[u]
                self.resident[u] = 0

    def evict(self, room: int) -> None:
        """Forget what was let go longest ago until the rest fits `room` blocks."""
        while self.cached > room:
            u = next(iter(self.free))
            gone = min(self.resident[u], self.cached - room)
            self.resident[u] -= gone
            self.cached -= gone
            if not self.resident[u]:
                del self.free[u]
