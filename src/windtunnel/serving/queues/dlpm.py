"""Deficit longest prefix match: locality among the tenants that have credit left.

Every tenant has a deficit counter. Requests are looked at by how much of them the cache holds; the first whose tenant
has credit goes. Prompt tokens that had to be computed and answer tokens are taken off its credit. When no queued tenant
has credit, all queued tenants get a quantum (times their weight). The difference of service between two tenants that
both have queued requests is at most 2·(U + quantum), U = max(w_p·longest prompt, w_q·tokens of a batch): a small
quantum is fair, a large one keeps locality.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES
from windtunnel.serving.queues.fair import Fair
from windtunnel.serving.queues.lpm import matched
from windtunnel.systems import card
from windtunnel.techniques.base import Knob

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("dlpm")
class DeficitLongestPrefixMatch(Fair):
    """Longest match first among tenants with credit."""

    id = "dlpm"
    title = "Deficit longest prefix match"
    source = f"Cao et al. 2025, {card('dlpm').title}, algorithm 1"
    knobs = {**Fair.knobs, "quantum": Knob(10_000.0, 1.0, 1e9, "weighted tokens that a refill adds")}

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""
        super().begin(instances)
        self.credit = [0.0] * len(self.context.weights)
        self.quantum = float(self.context.options.get("quantum", 10_000.0))
        self.groups: dict[int, dict[tuple[int, ...], deque[Request]]] = {one.index: {} for one in instances}
        """By instance: requests of a tenant that share all content but their own, in order of arrival."""
        self.looked: dict[int, tuple[float, list[deque[Request]]]] = {}

    def charge(self, tenant: int, service: float) -> None:
        """Service takes credit."""
        self.credit[tenant] -= service

    def came(self, tenant: int) -> None:
        """Credit that a tenant left when it had nothing to send is gone; what it owes stays."""
        self.credit[tenant] = min(self.credit[tenant], 0.0)

    def arrive(self, one: Instance, q: Request) -> None:
        """A request comes to an instance."""
        super().arrive(one, q)
        self._group(one, q).append(q)

    def put_back(self, one: Instance, q: Request) -> None:
        """A request was preempted."""
        super().put_back(one, q)
        self._group(one, q).appendleft(q)

    def next(self, one: Instance) -> Request | None:
        """The longest match of a tenant with credit; tenants are refilled where none has any."""
        order = [group for group in self._by_match(one) if group]
        if not order:
            return None
        present = {group[0].tenant for group in order}
        while not any(self.credit[t] > 0 for t in present):
            for t in present:
                self.credit[t] += self.quantum * self.weight(t)
        return next(group[0] for group in order if self.credit[group[0].tenant] > 0)

    def take(self, one: Instance, q: Request) -> None:
        """Its prompt is charged, save what the cache holds."""
        if not q.preemptions and not q.remote:
            self.charge(q.tenant, self.input_weight * (q.input - min(matched(one, q), q.input - 1)))
        super().take(one, q)
        group = self.groups[one.index][self._key(q)]
        group.remove(q)
        if not group:
            del self.groups[one.index][self._key(q)]

    def _by_match(self, one: Instance) -> list[deque[Request]]:
        """The queue by match, put in order once an event."""
        at, order = self.looked.get(one.index, (-1.0, []))
        if at != one.now:
            groups = self.groups[one.index].values()
            order = sorted(groups, key=lambda g: (-matched(one, g[0]), g[0].arrival, g[0].index))
            self.looked[one.index] = one.now, order
        return order

    def _group(self, one: Instance, q: Request) -> deque[Request]:
        self.looked.pop(one.index, None)
        return self.groups[one.index].setdefault(self._key(q), deque())

    @staticmethod
    def _key(q: Request) -> tuple[int, ...]:
        return (q.tenant, *q.chain[:-1])
