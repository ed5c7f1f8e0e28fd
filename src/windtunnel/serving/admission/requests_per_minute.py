"""At most so many requests a minute from each tenant (times its weight); the rest is shed."""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.serving.admission.base import ADMISSION
from windtunnel.serving.event_loop.twin.admission import Admission
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.techniques.base import Knob


@ADMISSION.register("requests_per_minute", "rpm")
class RequestsPerMinute(Admission):
    """Counts by the minute of the clock, as rate limits of APIs do."""

    id = "requests_per_minute"
    title = "A rate limit for every tenant"
    source = "Sheng et al. 2024 (VTC), section 5.1, baseline RPM"
    knobs = {"requests": Knob(60, 1, 1_000_000_000, "a minute and a tenant of weight 1")}

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        self.minute = [-1] * len(self.context.weights)
        self.count = [0] * len(self.context.weights)

    def accepts(self, one: Instance, q: Request, now: float) -> bool:
        """Whether the tenant has some left in this minute."""
        t, minute = q.tenant, int(now // 60)
        if self.minute[t] != minute:
            self.minute[t], self.count[t] = minute, 0
        if self.count[t] >= int(self.context.options["requests"]) * self.context.weights[t]:
            return False
        self.count[t] += 1
        return True
