"""SGLang's router: by prefix while load is even, by load while it is not.

The router keeps a tree of what it sent where; it does not see caches. Load is uneven when the most and the least loaded
instance differ by `balance_abs_threshold` requests and by a factor of `balance_rel_threshold`. Then the shortest queue
is taken; otherwise the best match where it covers `cache_threshold` of the prompt, else the instance that was sent
least.
"""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry
from windtunnel.techniques.base import Knob


class CacheAware(Router):
    """A tree of its own, which forgets nothing."""

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        self.sent: dict[int, set[int]] = {one.index: set() for one in instances}
        self.tokens: dict[int, int] = {one.index: 0 for one in instances}

    def route(self, instances: list[Instance], q: Request) -> int:
        """Place by load or match."""
        knobs = self.context.options
        load = [one.running + one.waiting for one in instances]
        most, least = max(load), min(load)
        places = range(len(instances))
        uneven = most - least > knobs["balance_abs_threshold"] and most > least * knobs["balance_rel_threshold"]
        found = [self.match(one, q) for one in instances]
        if uneven:
            k = min(places, key=lambda i: (load[i], i))
        else:
            k = max(places, key=lambda i: (found[i], -i))
            if found[k] <= knobs["cache_threshold"] * q.input:
                k = min(places, key=lambda i: (self.tokens[instances[i].index], i))
        one = instances[k]
        self.sent[one.index].update(q.chain)
        self.tokens[one.index] += q.input - min(found[k], q.input)
        return k

    def match(self, one: Instance, q: Request) -> int:
        """Tokens of a prompt that were sent there before."""
        if one.cache is None:
            return 0
        tokens, seen = 0, self.sent[one.index]
        for u in q.chain:
            if u not in seen:
                break
            tokens += one.cache.size[u] * one.limits.block
        return min(tokens, q.input)


ROUTERS.add(
    "cache_aware",
    RouterEntry(
        "By prefix, or by load when it is uneven",
        "SGLang router (sgl-model-gateway), policies/cache_aware.rs",
        None,
        CacheAware,
        {
            "cache_threshold": Knob(0.3, 0.0, 1.0, "share of a prompt from which a match counts"),
            "balance_abs_threshold": Knob(64, 0, 1_000_000, "requests between most and least loaded"),
            "balance_rel_threshold": Knob(1.5, 1.0, 1e6, "and the factor between them"),
        },
    ),
    aliases=("sglang_router",),
)
