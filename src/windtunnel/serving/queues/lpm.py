"""Longest prefix match first: those whose prompt the cache holds most of, so that hits come before evictions.

Beyond 128 queued requests SGLang falls back to the order of arrival. Of requests that begin alike and of which the
cache holds nothing yet, one goes first and the others wait behind the rest of the queue until it is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.resorted import Sorted
from windtunnel.techniques.base import Knob

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request

FALL_BACK = Knob(128, 1, 1_000_000, "queued requests beyond which they are served in order of arrival")
CHECK_BELOW, ALIKE_FROM = 32, 32
"""Tokens: a match below the first is looked at again; alike are requests with the second in common (SGLang,
IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD and _DEPRIORITIZE_THRESHOLD)."""


@QUEUES.register("lpm")
class LongestPrefixMatch(Sorted):
    """By tokens found in the instance's cache."""

    id = "lpm"
    title = "Longest prefix match first"
    source = "Zheng et al. 2024, SGLang; managers/schedule_policy.py, lpm"
    knobs = {"fall_back": FALL_BACK}

    def ordered(self, one: Instance, line: list[Request]) -> list[Request]:
        """By match, then in order of arrival."""
        if one.cache is None or len(line) > self.context.options.get("fall_back", FALL_BACK.default):
            return sorted(line, key=_arrival)
        late = behind(one, line)
        return sorted(line, key=lambda q: (q.index in late, -matched(one, q), *_arrival(q)))


def matched(one: Instance, q: Request) -> int:
    """Tokens of a request that the cache holds."""
    return one.cache.find(q.chain)[0] * one.limits.block if one.cache is not None else 0


def behind(one: Instance, line: list[Request]) -> set[int]:
    """Requests that begin as an earlier queued one does, while the cache holds little of them."""
    seen: set[int] = set()
    late: set[int] = set()
    assert one.cache is not None
    block, size = one.limits.block, one.cache.size
    for q in sorted(line, key=_arrival):
        if matched(one, q) > CHECK_BELOW or len(q.chain) < 2:
            continue
        node = next((u for u in q.chain if size[u]), -1)
        if node >= 0 and size[node] * block >= ALIKE_FROM and node in seen:
            late.add(q.index)
        seen.add(node)
    return late


def _arrival(q: Request) -> tuple[float, int]:
    return q.arrival, q.index
