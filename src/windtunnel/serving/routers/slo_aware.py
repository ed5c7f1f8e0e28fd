"""By predicted first token: an instance that meets the tenant's objective, else the one that misses it least.

Of those that meet it, `pack: true` takes the fullest (others stay free for what comes), else the one with most time to
spare.
"""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.serving.event_loop.ttft_forecast import Forecast
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry
from windtunnel.techniques.base import Knob


class SloAware(Router):
    """Forecasts TTFT and TPOT on every instance."""

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        self.forecast = Forecast(instances)

    def ended(self, one: Instance, q: Request) -> None:
        """An answer is complete."""
        self.forecast.ended(q)

    def route(self, instances: list[Instance], q: Request) -> int:
        """Place with headroom, or with the least lateness."""
        ttft, tpot = self.context.ttft_s[q.tenant], self.context.tpot_s[q.tenant]
        pack = self.context.options["pack"]
        best, at = (2, float("inf")), 0
        for k, one in enumerate(instances):
            first = self.forecast.ttft_s(one, q, q.arrival)
            step = self.forecast.tpot_s(one)
            late = max(first / ttft, step / tpot)  # above 1 the objective is missed; 0 without one
            if late > 1:
                rank = (1, late)
            else:
                rank = (0, -float(one.running + one.waiting) if pack else late or first)
            if rank < best:
                best, at = rank, k
        return at


ROUTERS.add(
    "slo_aware",
    RouterEntry(
        "By predicted TTFT and TPOT against the objective",
        "llm-d, predicted-latency based scheduling; Patke et al. 2024, QLM",
        None,
        SloAware,
        {"pack": Knob(False, doc="of the instances that meet the objective take the fullest")},
    ),
)
