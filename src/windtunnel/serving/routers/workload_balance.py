"""For unlike instances: speed against the work that each has been sent since the start.

Score = alpha · seconds of the call on the first instance / its seconds on this one − (1 − alpha) · work sent to this
one / work sent to the first; the highest wins. Work is seconds of calls, each by itself on the instance that it went
to, and is never taken back: what has ended counts as much as what waits. `alpha` 0 gives all instances the same seconds
of work, 1 sends every call where it is fastest. The first instance gets the first call.

This is what the released simulator does in place of the paper's score (`speed_and_queue`). It counts the work of its
slower devices by half (`slower_share`).
"""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.serving.event_loop.ttft_forecast import Forecast
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry
from windtunnel.techniques.base import Knob


class WorkloadBalance(Router):
    """Work is counted when a call is sent."""

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        self.forecast = Forecast(instances)
        self.sent_s: dict[int, float] = {one.index: 0.0 for one in instances}

    def route(self, instances: list[Instance], q: Request) -> int:
        """Place of the highest score; of equals, the first."""
        alpha, share = self.context.options["alpha"], self.context.options["slower_share"]
        alone = [self.forecast.alone_s(one, q) for one in instances]
        first_s = self.sent_s[instances[0].index]

        def score(k: int) -> float:
            counted = share if alone[k] > alone[0] else 1.0
            work = counted * self.sent_s[instances[k].index] / first_s
            return float(alpha * alone[0] / alone[k] - (1 - alpha) * work)

        best = max(range(len(instances)), key=lambda k: (score(k), -k)) if first_s > 0 else 0
        self.sent_s[instances[best].index] += alone[best]
        return best


ROUTERS.add(
    "workload_balance",
    RouterEntry(
        "Speed of the instance against the work sent to it so far",
        "Peng et al. 2025, HexGen-Flow (github Relaxed-System-Lab/Hexgen-Flow, policies/routing/workload_balance.py)",
        None,
        WorkloadBalance,
        {
            "alpha": Knob(0.2, 0.0, 1.0, "weight of speed, next to balance"),
            "slower_share": Knob(1.0, 0.0, 1.0, "what a second of work counts on an instance slower than the first"),
        },
    ),
)
