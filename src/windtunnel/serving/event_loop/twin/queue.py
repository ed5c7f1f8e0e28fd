"""Which queued request is next, and which running one is preempted: one object a run, with hooks of the loop.

A discipline orders requests; a policy (`policies/`) forms batches of those that it names. `fcfs` and `priority` are of
the jitted loop; every other one is run by the twin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from windtunnel.registry import Registry
from windtunnel.techniques.base import Knob

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.program_rest import ProgramRest
    from windtunnel.serving.event_loop.swapping import Swaps
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@dataclass(frozen=True, slots=True)
class Context:
    """What a discipline, an admission rule or a router may know next to the requests themselves."""

    weights: tuple[float, ...] = (1.0,)
    """By tenant."""
    ttft_s: tuple[float, ...] = (float("inf"),)
    """Objective by tenant, seconds; infinite: none."""
    tpot_s: tuple[float, ...] = (float("inf"),)
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    """Knobs, with defaults filled in."""
    rest: ProgramRest | None = None
    """What of programs is still to do; None: nobody asked (`reads_programs`)."""


class Queue:
    """The lowest class first, then in order of arrival. Override hooks for another discipline."""

    id: ClassVar[str] = "fcfs"
    title: ClassVar[str] = "In order of arrival"
    source: ClassVar[str] = ""
    knobs: ClassVar[Mapping[str, Knob]] = {}
    reads_programs: ClassVar[bool] = False
    """Whether it looks at the whole programs that calls belong to."""
    jitted: ClassVar[bool] = False
    """Whether the jitted loop has it."""
    takes_any: ClassVar[bool] = True
    """Whether `take` takes any queued request, not only the next one: calls that are taken back need it."""

    swaps: Swaps | None = None
    """How caches of those that give way move; None: as `Limits` says, both ways charged when they return."""

    def __init__(self, context: Context | None = None) -> None:
        self.context = context or Context()

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""

    def arrive(self, one: Instance, q: Request) -> None:
        """A request comes to an instance."""
        self._line(one, q).append(q)

    def put_back(self, one: Instance, q: Request) -> None:
        """A request was preempted: it is first in the queue again, or last (`taken_last`)."""
        line = self._line(one, q)
        line.append(q) if one.limits.taken_last else line.appendleft(q)

    def next(self, one: Instance) -> Request | None:
        """Who is served first."""
        for c in sorted(one.lines):
            if one.lines[c]:
                return one.lines[c][0]
        return None

    def take(self, one: Instance, q: Request) -> None:
        """A request, the one that `next` named, leaves the queue for the batch."""
        line = self._line(one, q)
        if line[0] is q:
            line.popleft()
        else:
            line.remove(q)

    def waiting(self, one: Instance) -> int:
        """Queued requests."""
        return sum(len(line) for line in one.lines.values())

    def victim(self, one: Instance) -> Request:
        """The request to preempt when the cache is full: the newest, or the one that made least (`least_made`)."""
        if one.limits.least_made and one.limits.step_tokens == 1 and len(one.decoding) > 1:
            return min(one.decoding, key=lambda q: (q.made, -q.input, -q.index))
        return one.admitted[-1]

    def yields(self, one: Instance) -> Request | None:
        """The running request that is preempted for a queued one though the cache is not full; None: no request."""
        return None

    def horizon(self, one: Instance) -> int:
        """Decode steps until it wants to look at the instance again, though nobody came and nobody left."""
        return 1 << 30

    def served(self, one: Instance, chunks: Sequence[tuple[Request, int]], tokens: int) -> None:
        """An iteration, or a run of decode steps, is over: prompt tokens by request, and tokens of each in decode."""

    def ended(self, one: Instance, q: Request) -> None:
        """An answer is complete."""

    @staticmethod
    def _line(one: Instance, q: Request) -> deque[Request]:
        return one.lines.setdefault(q.priority, deque())


QUEUES: Registry[type[Queue]] = Registry("queues", package="windtunnel.serving.queues", noun="queue discipline")
