"""For unlike instances: seconds that a call takes on each, weighed against the seconds of what is in front of it.

Score = (1 − alpha) · beta / queue − alpha · compute in seconds; the highest wins. `alpha` 1 sends every call where
it computes fastest, 0 where the least work waits. The seconds are the instance's own iteration times for the lengths
that calls will have, less what of the prompt its cache holds; a scheduler that predicts lengths does no better.
"""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.serving.event_loop.ttft_forecast import Forecast
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry
from windtunnel.techniques.base import Knob

_LEAST_S = 1e-6
"""Of an empty queue: it wins over any other."""


class SpeedAndQueue(Router):
    """Work in front of a call is counted by what was sent and has not ended."""

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        self.forecast = Forecast(instances)
        self.sent: dict[int, tuple[int, float]] = {}
        self.ahead_s: dict[int, float] = {one.index: 0.0 for one in instances}

    def route(self, instances: list[Instance], q: Request) -> int:
        """Place of the highest score; of equals, the first."""
        alpha, beta = self.context.options["alpha"], self.context.options["beta"]
        compute = [self.forecast.alone_s(one, q) for one in instances]

        def score(k: int) -> float:
            queue_s = max(self.ahead_s[instances[k].index], _LEAST_S)
            return float((1 - alpha) * beta / queue_s - alpha * compute[k])

        best = max(range(len(instances)), key=lambda k: (score(k), -k))
        index = instances[best].index
        self.sent[q.index] = (index, compute[best])
        self.ahead_s[index] += compute[best]
        return best

    def ended(self, one: Instance, q: Request) -> None:
        """An answer is complete."""
        index, seconds = self.sent.pop(q.index, (one.index, 0.0))
        self.ahead_s[index] = max(self.ahead_s[index] - seconds, 0.0)


ROUTERS.add(
    "speed_and_queue",
    RouterEntry(
        "Speed of the instance against what waits there",
        "Peng et al. 2025, HexGen-Flow, global dispatcher (score with alpha and beta)",
        None,
        SpeedAndQueue,
        {
            "alpha": Knob(0.2, 0.0, 1.0, "weight of the call's own seconds, next to the queue's"),
            "beta": Knob(1.0, 0.0, 1e9, "square seconds that scale the queue's part"),
        },
    ),
    aliases=("hexgen",),
)
