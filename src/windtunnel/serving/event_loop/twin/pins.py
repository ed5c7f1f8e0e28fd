"""Blocks that calls of the reference loop leave behind and that stay while their program runs a tool."""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.arrays import Int32s, Ints
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request


class Pins:
    """What is kept, and until when (`kernels/pins.py` does the same, jitted).

    Args:
        start: (R + J + 1,) where the parents of each request or joint begin.
        parents: requests and joints that each waits for.
        every: all requests by number.
        instances: all of them.
    """

    def __init__(self, start: Ints, parents: Int32s, every: Sequence[Request], instances: Sequence[Instance]) -> None:
        edges, at = parents.tolist(), start.tolist()
        self.parents = [edges[at[i] : at[i + 1]] for i in range(len(at) - 1)]
        self.all, self.instances = every, instances

    def keep_or_drop(self, one: Instance, q: Request) -> None:
        """A request is over and has left its batch: it keeps its blocks, or they are dropped."""
        if one.cache is None:
            return
        if q.keep < 0.0:
            one.cache.forget(q.chain)
        if q.pinned and q.nodes:
            one.pinned[q.index] = q
        else:
            q.pinned = False

    def unpin(self, q: Request) -> None:
        """Its blocks may be evicted from now on."""
        one = self.instances[q.instance]
        assert one.cache is not None
        del one.pinned[q.index]
        one.used -= one.cache.release(q.chain[: q.nodes])
        q.nodes = q.shared = 0
        q.pinned = False

    def unpin_oldest(self, one: Instance) -> bool:
        """Have the oldest pin of an instance give way; false where it has none."""
        if not one.pinned:
            return False
        self.unpin(next(iter(one.pinned.values())))
        return True

    def scheduled(self, q: Request) -> None:
        """A request begins: calls that it waited for, by way of joints too, keep their blocks no more."""
        rest, seen = [q.index], set()
        while rest:
            for p in self.parents[rest.pop()]:
                if p < len(self.all):
                    if self.all[p].pinned:
                        self.unpin(self.all[p])
                elif p not in seen:
                    seen.add(p)
                    rest.append(p)
