"""D²LPM: each tenant has credit on each instance; requests go to the longest match among instances with credit.

Prompt tokens that have to be computed are taken off when a request is sent, answer tokens when it has ended. Where the
tenant has no credit anywhere, it gets a quantum on every instance. So a tenant's work spreads although all of it
matches in one place, and no instance is asked for more than a quantum beyond the others. The instances' own queue is
`queue: dlpm`.
"""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.queues.fair import INPUT_WEIGHT, OUTPUT_WEIGHT
from windtunnel.serving.routers.base import ROUTERS, RouterEntry
from windtunnel.serving.routers.cache_aware import CacheAware
from windtunnel.systems import card
from windtunnel.techniques.base import Knob


class DoubleDeficit(CacheAware):
    """The router's own tree of what it sent where, and credit by tenant and instance."""

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        super().begin(instances)
        self.credit = {(t, one.index): 0.0 for t in range(len(self.context.weights)) for one in instances}

    def route(self, instances: list[Instance], q: Request) -> int:
        """Longest match with credit; of equals, the one with fewest requests."""
        knobs, t = self.context.options, q.tenant
        while not any(self.credit[t, one.index] > 0 for one in instances):
            for one in instances:
                self.credit[t, one.index] += knobs["quantum"]
        able = [k for k, one in enumerate(instances) if self.credit[t, one.index] > 0]
        found = {k: self.match(instances[k], q) for k in able}
        k = min(able, key=lambda i: (-found[i], instances[i].running + instances[i].waiting, i))
        one = instances[k]
        self.sent[one.index].update(q.chain)
        self.credit[t, one.index] -= knobs["input_weight"] * (q.input - min(found[k], q.input - 1))
        return k

    def ended(self, one: Instance, q: Request) -> None:
        """Answer tokens take credit, wherever they are made."""
        self.credit[q.tenant, one.index] -= self.context.options["output_weight"] * (q.answer or q).output


ROUTERS.add(
    "d2lpm",
    RouterEntry(
        "Double deficit longest prefix match",
        f"Cao et al. 2025, {card('dlpm').title}, algorithm 2",
        None,
        DoubleDeficit,
        {
            "quantum": Knob(50_000.0, 1.0, 1e9, "weighted tokens that a refill adds on each instance"),
            "input_weight": INPUT_WEIGHT,
            "output_weight": OUTPUT_WEIGHT,
        },
    ),
)
