"""Orders by the program that a call belongs to: when it began, when it is due, what of it is still to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from windtunnel.serving.event_loop.ttft_forecast import Forecast
from windtunnel.serving.queues.static_key import Keyed

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.queue import Context
    from windtunnel.serving.event_loop.twin.request import Request


class OfPrograms(Keyed):
    """Override `key_on`. A program begins when its first call comes; a request by itself is a program of one call."""

    reads_programs: ClassVar[bool] = True

    def __init__(self, context: Context | None = None) -> None:
        super().__init__(context)
        self.begun: dict[int, float] = {}
        self.keys: dict[int, float] = {}

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        super().begin(instances)
        self.forecast = Forecast(instances)

    def key_on(self, one: Instance, q: Request) -> float:
        """What requests of an instance are ordered by, the smallest first."""
        raise NotImplementedError

    def key(self, q: Request) -> float:
        """As it was when the request came to its instance."""
        return self.keys[q.index]

    def arrive(self, one: Instance, q: Request) -> None:
        """A request comes to an instance."""
        self.begun.setdefault(q.group, q.arrival)
        self.keys[q.index] = self.key_on(one, q)
        super().arrive(one, q)

    def due(self, q: Request) -> float:
        """When its program is to be over; infinite without an objective."""
        rest = self.context.rest
        return float("inf") if rest is None else self.begun[q.group] + float(rest.deadline_s[_call(q)])

    def rest_s(self, one: Instance, q: Request) -> float:
        """Seconds that the rest of its program would take on this instance, with as many sequences as run now."""
        rest = self.context.rest
        if rest is None:
            return self.seconds(one, q.input, q.output)
        return self.seconds(one, float(rest.prompt_tokens[_call(q)]), float(rest.output_tokens[_call(q)]))

    def seconds(self, one: Instance, prompt_tokens: float, output_tokens: float) -> float:
        """Seconds of prompts and of generated tokens on an instance, with as many sequences as run now."""
        step_s = self.forecast.step_s(one, one.running + 1)
        return self.forecast.prefill_s(one, prompt_tokens, 0) + output_tokens * step_s


def _call(q: Request) -> int:
    """Number of the call; the answer of a split pool is a request of its own behind its prompt's."""
    return q.index if q.prompt is None else q.prompt.index
