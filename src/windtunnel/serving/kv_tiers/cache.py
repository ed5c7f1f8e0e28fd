"""The content of an instance's device with levels below it: what is let go goes down, what is found comes up.

Levels are exclusive: of each node the device holds the first blocks, the first level those that follow, and so on; a
block that is loaded leaves the level once it is computed upon. Inside a level what was touched longest ago goes first,
to the next level or, from the last one, for good. A shared store is inclusive: blocks are written when computed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.prefix_cache import PrefixCache
from windtunnel.serving.kv_tiers.level import Line

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.request import Request


class Level:
    """Blocks by node of one instance's level. `upto[u]`: blocks of the node that this level or a faster one holds."""

    def __init__(self, capacity: int, nodes: int, line: Line) -> None:
        self.capacity, self.line = capacity, line
        self.upto, self.kept = [0] * nodes, [0] * nodes
        self.used = 0
        self.order: OrderedDict[int, None] = OrderedDict()


class Store:
    """Blocks by node of a store that instances share."""

    def __init__(self, capacity: int, nodes: int) -> None:
        self.capacity, self.used = capacity, 0
        self.kept = [0] * nodes
        self.order: OrderedDict[int, None] = OrderedDict()

    def put(self, u: int, blocks: int) -> int:
        """Write the first blocks of a node; returns how many are new."""
        new = max(blocks - self.kept[u], 0)
        if not self.capacity or not blocks:
            return 0
        self.kept[u] += new
        self.used += new
        self.touch(u)
        while self.used > self.capacity:
            oldest = next(iter(self.order))
            gone = min(self.kept[oldest], self.used - self.capacity)
            self.kept[oldest] -= gone
            self.used -= gone
            if not self.kept[oldest]:
                del self.order[oldest]
        return new

    def touch(self, u: int) -> None:
        """The node was written or found."""
        if self.kept[u]:
            self.order[u] = None
            self.order.move_to_end(u)


class TieredCache(PrefixCache):
    """A device's cache with levels below."""

    def __init__(
        self, size: Sequence[int], levels: Sequence[tuple[int, Line]], store: Store | None, line: Line | None
    ) -> None:
        super().__init__(size)
        self.levels = [Level(capacity, len(size), own) for capacity, own in levels]
        self.store, self.line = store, line
        self.ends_at = 0.0
        """When the loads of requests that were admitted last end."""
        self.hits = 0
        """Blocks that were found on the device."""
        self.ahead: dict[int, tuple[float, int]] = {}
        """By queued request: when what was read into the first level is there, and how many blocks that were."""

    def lines(self) -> list[Line]:
        """Loads by level."""
        return [level.line for level in self.levels] + ([self.line] if self.line else [])

    def reach(self, u: int) -> int:
        """Blocks of a node that are somewhere."""
        most = self.resident[u]
        if self.levels:
            most = max(most, self.levels[-1].upto[u])
        return most if self.store is None else max(most, self.store.kept[u])

    def reusable(self, q: Request, block: int) -> int:
        """Tokens of a request that are on the device or below."""
        found = 0
        for u in q.chain:
            here = min(self.reach(u), self.size[u])
            found += here
            if here < self.size[u]:
                break
        return found * block

    def prefetch(self, q: Request, now: float) -> None:
        """Read what a queued request finds below the first level into it."""
        first, wanted = self.levels[0], [0] * (len(self.levels) + 1)
        for u in q.chain:
            here = min(self.reach(u), self.size[u])
            top = min(max(self.resident[u], first.upto[u]), here)
            had = top
            for t, level in enumerate(self.levels[1:], 1):
                own = min(level.upto[u], here) - top
                if own > 0:
                    wanted[t] += own
                    top += own
            wanted[-1] += here - top
            if here > had:
                for level in self.levels:
                    level.upto[u] = max(level.upto[u], here)
                self._settle(u, read=here - had)
                first.order.move_to_end(u)
            if here < self.size[u]:
                break
        lines = [level.line for level in self.levels] + [self.line]
        ends = [line.load(n, now) for n, line in zip(wanted, lines, strict=True) if n and line is not None]
        if ends:
            self.ahead[q.index] = (max(ends), sum(wanted))
            self._spill()

    def fetch(self, q: Request, block: int, now: float) -> None:
        """Load what a request finds below the device, up to the tokens that it takes from the cache."""
        self.hits += min(self.find(q.chain)[0], q.cached // block)
        room = -(-q.cached // block)
        wanted = [0] * (len(self.levels) + 1)
        for u in q.chain:
            here = min(self.reach(u), self.size[u], room)
            top = min(self.resident[u], here)
            for t, level in enumerate(self.levels):
                own = min(level.upto[u], here) - top
                if own > 0:
                    wanted[t] += own
                    top += own
                    level.order.move_to_end(u)
            wanted[-1] += here - top
            if self.store is not None and here > self.resident[u]:
                self.store.touch(u)
            room -= here
            if here < self.size[u] or room <= 0:
                break
        ready, again = self.ahead.pop(q.index, (now, 0))
        lines = [level.line for level in self.levels] + [self.line]
        for t, (blocks, line) in enumerate(zip(wanted, lines, strict=True)):
            if blocks and line is not None:
                begin, known = (max(ready, now), min(again, blocks)) if t == 0 else (now, 0)
                self.ends_at = max(self.ends_at, line.load(blocks, begin, known))

    def register(self, chain: Sequence[int], held: int, done: int) -> tuple[int, int, int]:
        """See `PrefixCache`; what became resident leaves the levels below and is written to the store."""
        before = [self.resident[u] for u in chain]
        out = super().register(chain, held, done)
        for u, old in zip(chain, before, strict=True):
            if self.resident[u] != old:
                self._settle(u)
                if self.store is not None and self.line is not None:
                    self.line.written += self.store.put(u, self.resident[u])
        return out

    def evict(self, room: int) -> None:
        """See `PrefixCache`; blocks go down."""
        while self.cached > room:
            u = next(iter(self.free))
            self._lower(u, min(self.resident[u], self.cached - room))
        self._spill()

    def forget(self, chain: Sequence[int]) -> None:
        """See `PrefixCache`; blocks go down at once: a call that is over leaves the device while its program pauses."""
        for u in reversed(chain):
            if not self.holders[u] and self.resident[u]:
                self._lower(u, self.resident[u])
        self._spill()

    def _lower(self, u: int, blocks: int) -> None:
        """Move the last blocks of a node, which nobody holds, from the device to the first level."""
        before = self.resident[u]
        self.resident[u] -= blocks
        self.cached -= blocks
        if not self.resident[u]:
            del self.free[u]
        for level in self.levels:
            level.upto[u] = max(level.upto[u], before)
        self._settle(u)
        if self.levels:
            self.levels[0].order[u] = None
            self.levels[0].order.move_to_end(u)

    def _spill(self) -> None:
        """Levels that are over capacity hand on what was touched longest ago."""
        for t, level in enumerate(self.levels):
            while level.used > level.capacity:
                u = next(iter(level.order))
                level.upto[u] -= min(level.kept[u], level.used - level.capacity)
                self._settle(u)
                if t + 1 < len(self.levels) and self.levels[t + 1].kept[u]:
                    self.levels[t + 1].order.move_to_end(u)

    def _settle(self, u: int, read: int = 0) -> None:
        """Count anew what each level holds of a node; `read` blocks came up from below and were not written."""
        top = self.resident[u]
        for level in self.levels:
            level.upto[u] = max(level.upto[u], top) if level.upto[u] else 0
            kept = max(level.upto[u] - top, 0)
            grown = kept - level.kept[u]
            level.used += grown
            level.line.written += max(grown - read, 0)
            level.kept[u] = kept
            if kept:
                level.order.setdefault(u, None)
            else:
                level.order.pop(u, None)
            top = max(top, level.upto[u])
