"""Weighted scores between 0 and 1 for a short queue, a free cache and a known prefix; the best sum wins."""

from __future__ import annotations

from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry
from windtunnel.techniques.base import Knob


class LlmD(Router):
    """Line: (longest − own) / (longest − shortest); cache: free share; prefix: known share of the prompt."""

    def route(self, instances: list[Instance], q: Request) -> int:
        """Place of the best score."""
        knobs = self.context.options
        lines = [one.waiting for one in instances]
        low, high = min(lines), max(lines)

        def score(k: int) -> float:
            one = instances[k]
            queue = (high - lines[k]) / (high - low) if high > low else 1.0
            free = 1.0 - one.used / one.limits.blocks
            known = min(one.known(q), q.input) / q.input
            return float(knobs["queue_weight"] * queue + knobs["kv_weight"] * free + knobs["prefix_weight"] * known)

        return max(range(len(instances)), key=lambda k: (score(k), -k))


ROUTERS.add(
    "llm_d",
    RouterEntry(
        "Weighted scores of queue, cache and prefix",
        "llm-d inference scheduler; gateway-api-inference-extension, default scorer weights",
        None,
        LlmD,
        {
            "queue_weight": Knob(2.0, 0.0, 1e6, "queue-scorer"),
            "kv_weight": Knob(2.0, 0.0, 1e6, "kv-cache-utilization-scorer"),
            "prefix_weight": Knob(3.0, 0.0, 1e6, "prefix-cache-scorer"),
        },
    ),
)
