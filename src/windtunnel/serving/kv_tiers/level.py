"""One level's line of loads, and what went through it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Line:
    """Loads of one instance from one level: one after the other. Seconds; blocks."""

    kind: str
    block_s: float
    latency_s: float
    free_at: float = 0.0
    loads: int = 0
    loaded: int = 0
    written: int = 0
    busy_s: float = 0.0

    def load(self, blocks: int, now: float, again: int = 0) -> float:
        """Queue a load; returns when it ends.

        Args:
            blocks: to read.
            now: the earliest start.
            again: blocks of these that another level has been counted for.
        """
        seconds = self.latency_s + blocks * self.block_s
        self.free_at = max(now, self.free_at) + seconds
        self.loads, self.loaded, self.busy_s = self.loads + 1, self.loaded + blocks - again, self.busy_s + seconds
        return self.free_at


def pipelined(compute_s: float, load_s: float, layers: int) -> float:
    """Seconds of layers that are loaded and computed in turn, one layer's load next to the one before.

    Of two equal chains of so many steps: the longer, and one step of the shorter.

    Example:
        >>> pipelined(4.0, 2.0, 4)
        4.5
    """
    return max(compute_s, load_s) + min(compute_s, load_s) / layers
