"""Virtual token counter: the tenant that was served least goes first.

A tenant's counter grows by the service that it receives, over its weight: prompt tokens when a request is admitted,
answer tokens as they are made. Who comes after a pause is lifted to the least counter among queued tenants (or,
where nobody waits, to that of the tenant that waited last), so that a pause earns nothing. The difference of service
between two tenants that both have queued requests is at most 2·max(w_p·longest prompt, w_q·tokens of a batch).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.fair import Fair
from windtunnel.systems import card
from windtunnel.techniques.base import Knob

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("vtc")
class VirtualTokenCounter(Fair):
    """Least served first, in order of arrival within a tenant."""

    id = "vtc"
    title = "Virtual token counter"
    source = f"Sheng et al. 2024, {card('vtc').title}, algorithm 2; weights: section 4.3"
    knobs = {**Fair.knobs, "lift": Knob(True, doc="lift counters after a pause; false: least counter first (LCF)")}

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        super().begin(instances)
        self.counter = [0.0] * len(self.context.weights)
        self.last = -1

    def charge(self, tenant: int, service: float) -> None:
        """Service counts less for a tenant of more weight."""
        self.counter[tenant] += service / self.weight(tenant)

    def came(self, tenant: int) -> None:
        """Lift its counter."""
        if not self.context.options.get("lift", True):
            return
        others = [self.counter[t] for t, n in self.in_line.items() if n]
        if others:
            self.counter[tenant] = max(self.counter[tenant], min(others))
        elif self.last >= 0:
            self.counter[tenant] = max(self.counter[tenant], self.counter[self.last])

    def next(self, one: Instance) -> Request | None:
        """The first queued request of the tenant with the least counter."""
        best, least = None, float("inf")
        for t, line in one.lines.items():
            if line and (self.counter[t] < least or (self.counter[t] == least and (best is None or t < best))):
                best, least = t, self.counter[t]
        return None if best is None else one.lines[best][0]

    def take(self, one: Instance, q: Request) -> None:
        """Its prompt is charged once, however often it is computed and wherever it is answered."""
        super().take(one, q)
        if not q.preemptions and not q.remote:
            self.charge(q.tenant, self.input_weight * q.input)
        if not self.in_line[q.tenant]:
            self.last = q.tenant
