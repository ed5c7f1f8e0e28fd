"""Where it costs least: prompt tokens that the instance would have to compute, and blocks that it already serves.

Cost = overlap_weight · (prompt blocks still to compute there, those of this request that its cache lacks included)
+ blocks in use. The least cost wins; of equals, the first.
"""

from __future__ import annotations

from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry
from windtunnel.techniques.base import Knob


class KvAware(Router):
    """Exact knowledge of every cache, as from its events."""

    def route(self, instances: list[Instance], q: Request) -> int:
        """Place of the cheapest."""
        weight = self.context.options["overlap_weight"]

        def cost(one: Instance) -> float:
            found = min(one.known(q), q.input - 1)
            prefill = (one.asked + sum(p.left for p in one.prompts) + q.input - found) / one.limits.block
            return float(weight * prefill + one.used)

        return min(range(len(instances)), key=lambda k: (cost(instances[k]), k))


ROUTERS.add(
    "kv_aware",
    RouterEntry(
        "Least cost of prompt and load",
        "NVIDIA Dynamo, lib/llm kv_router/scheduler: overlap_score_weight",
        None,
        KvAware,
        {"overlap_weight": Knob(1.0, 0.0, 1e6, "of prompt blocks to compute, next to blocks in use")},
    ),
    aliases=("dynamo",),
)
