"""Depth first through the tree of prefixes: the subtree with most requests waiting first, then all of it.

Requests of one branch run together, so that a branch is computed once and may then be forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.resorted import Sorted

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("dfs_weight", "dfs-weight")
class DepthFirstByWeight(Sorted):
    """By the weight of subtrees; a node's weight is the requests that wait in or below it."""

    id = "dfs_weight"
    title = "Depth first, heaviest subtree first"
    source = "SGLang managers/schedule_policy.py, dfs-weight"

    def ordered(self, one: Instance, line: list[Request]) -> list[Request]:
        """Paths of nodes that the cache holds, the heaviest child first at every branch."""
        paths = {q.index: self._held(one, q) for q in line}
        weight: dict[int, int] = defaultdict(int)
        for path in paths.values():
            for u in path:
                weight[u] += 1

        def place(q: Request) -> tuple[tuple[tuple[int, int], ...], float, int]:
            return (*((-weight[u], u) for u in paths[q.index]), (1, 0)), q.arrival, q.index

        return sorted(line, key=place)

    @staticmethod
    def _held(one: Instance, q: Request) -> tuple[int, ...]:
        if one.cache is None:
            return ()
        return q.chain[: one.cache.find(q.chain)[2]]
