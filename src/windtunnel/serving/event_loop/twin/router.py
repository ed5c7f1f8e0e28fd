"""Which instance of the reference loop a request goes to."""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.serving.event_loop.instance_limits import Router as RouterId
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.queue import Context
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.splitmix64.plain import SplitMix64


class Router:
    """Which instance a request goes to. Override `route` to try another rule."""

    def __init__(self, rule: RouterId, seed: int) -> None:
        self.rule, self.turn, self.random, self.context = rule, -1, SplitMix64(seed), Context()
        self.home: dict[int, int] = {}
        """Place of each gang's instance."""

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""

    def ended(self, one: Instance, q: Request) -> None:
        """An answer is complete."""

    def keeps(self, one: Instance, q: Request) -> bool:
        """Whether an instance that computes prompts for others answers this one itself."""
        return False

    def draw(self) -> float:
        """A number in [0, 1), the same as the jitted loop draws."""
        return self.random.uniform()

    def route(self, instances: list[Instance], q: Request) -> int:
        """Place in the list of the instance."""
        n = len(instances)
        self.turn += 1
        if n == 1:
            return 0
        if self.rule is RouterId.ROUND_ROBIN:
            return self.turn % n
        if self.rule is RouterId.RANDOM:
            return int(self.draw() * n)
        if self.rule is RouterId.STICKY:
            return q.group % n
        if self.rule is RouterId.GANG:
            if q.group not in self.home:
                self.home[q.group] = min(range(n), key=lambda k: (instances[k].tokens_to_do, k))
            return self.home[q.group]
        if self.rule is RouterId.LEAST_TOKENS:
            return min(range(n), key=lambda k: (instances[k].tokens_to_do, k))
        load = [one.running + one.waiting + one.promised for one in instances]
        if self.rule is RouterId.POWER_OF_TWO:
            a = int(self.draw() * n)
            b = int(self.draw() * (n - 1))
            b += b >= a
            return min(a, b, key=lambda k: (load[k], k))
        return min(range(n), key=lambda k: (load[k], k))
