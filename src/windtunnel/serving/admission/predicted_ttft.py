"""Shed requests whose TTFT objective would be missed: load is shed early, and admitted requests are served."""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.serving.admission.base import ADMISSION
from windtunnel.serving.event_loop.ttft_forecast import Forecast
from windtunnel.serving.event_loop.twin.admission import Admission
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.techniques.base import Knob


@ADMISSION.register("predicted_ttft")
class PredictedTtft(Admission):
    """Forecast against the tenant's objective times a margin."""

    id = "predicted_ttft"
    title = "Shed by predicted TTFT"
    source = "Qin et al. 2025, Mooncake, section 7 (early rejection by predicted load)"
    knobs = {"margin": Knob(1.0, 0.01, 100.0, "of the objective: below 1 stricter")}

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        self.forecast = Forecast(instances)

    def ended(self, one: Instance, q: Request) -> None:
        """An answer is complete."""
        self.forecast.ended(q)

    def accepts(self, one: Instance, q: Request, now: float) -> bool:
        """Whether the first token would come in time."""
        limit = self.context.ttft_s[q.tenant] * float(self.context.options["margin"])
        return self.forecast.ttft_s(one, q, now) <= limit
