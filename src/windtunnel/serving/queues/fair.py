"""What disciplines that share service between tenants have in common: a line a tenant, and what was charged to each."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import Context, Queue
from windtunnel.techniques.base import Knob

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request

INPUT_WEIGHT = Knob(1.0, 0.0, 1e6, "service of a prompt token (VTC, section 5.1)")
OUTPUT_WEIGHT = Knob(2.0, 0.0, 1e6, "service of an answer token")


class Fair(Queue):
    """Lines by tenant; `charge` gets all service. One object serves all instances: shares hold over the fleet."""

    knobs = {"input_weight": INPUT_WEIGHT, "output_weight": OUTPUT_WEIGHT}
    takes_any = False

    def __init__(self, context: Context | None = None) -> None:
        super().__init__(context)
        self.input_weight = float(self.context.options.get("input_weight", INPUT_WEIGHT.default))
        self.output_weight = float(self.context.options.get("output_weight", OUTPUT_WEIGHT.default))
        self.in_line: dict[int, int] = {}
        """Queued requests by tenant, over all instances."""

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        self.in_line = dict.fromkeys(range(len(self.context.weights)), 0)

    def weight(self, tenant: int) -> float:
        """Weight of a tenant in the shares of service."""
        return self.context.weights[tenant]

    def charge(self, tenant: int, service: float) -> None:
        """A tenant received so much weighted service."""
        raise NotImplementedError

    def came(self, tenant: int) -> None:
        """A tenant without queued requests has one again."""

    def arrive(self, one: Instance, q: Request) -> None:
        """A request comes to an instance."""
        if not self.in_line[q.tenant]:
            self.came(q.tenant)
        self.in_line[q.tenant] += 1
        self._line(one, q).append(q)

    def put_back(self, one: Instance, q: Request) -> None:
        """A request was preempted."""
        self.in_line[q.tenant] += 1
        self._line(one, q).appendleft(q)

    def take(self, one: Instance, q: Request) -> None:
        """A request leaves the queue."""
        line = one.lines[q.tenant]
        if line[0] is q:
            line.popleft()
        else:
            line.remove(q)
        self.in_line[q.tenant] -= 1

    def served(self, one: Instance, chunks: Sequence[tuple[Request, int]], tokens: int) -> None:
        """Answer tokens, the first of a prompt that is done now included."""
        if tokens:
            for q in one.decoding:
                self.charge(q.tenant, self.output_weight * min(tokens, q.output - q.made))
        for q, c in chunks:
            if q.left == c:
                self.charge(q.tenant, self.output_weight)

    @staticmethod
    def _line(one: Instance, q: Request) -> deque[Request]:
        return one.lines.setdefault(q.tenant, deque())
