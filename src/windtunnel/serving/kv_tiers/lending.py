"""Instances of a pool lend blocks to each other; attention over blocks that lie elsewhere is computed where they lie.

An instance whose cache is full takes blocks of the one with the most free ones, and gives them back when it has room of
its own. At every step that reads lent blocks the borrower sends the queries of the sequences concerned, layer by layer,
and gets partial outputs with their normalisers back; the lender reads those keys and values in its own iterations,
next to what it computes itself. Both sides read at the same time.

Source: Lin et al. 2024 (Infinite-LLM, DistAttention): sub-blocks of the cache on any instance, queries and partial
results exchanged instead of keys and values, a manager that lends from instances with short contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request

LOOKS = 32
"""Decode steps between two looks at loans, while there are any."""
PARTIAL_BYTES = 4.0
"""Bytes of one element of a partial output: fp32, as it is added to others."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What attention over lent blocks costs the borrower, of one instance."""

    layers: int
    query_bytes: float
    """Per sequence and layer, on one device's link: a query there, a partial output and its normalisers back."""
    inside: tuple[float, float]
    """Seconds of one message and bytes per second of a device, between instances of a node."""
    outside: tuple[float, float]
    """The same between nodes."""
    node_of: tuple[int, ...]
    """First node of each instance of the loop."""


@dataclass(slots=True)
class Loan:
    """Blocks of one instance that another holds."""

    lender: Instance
    blocks: int


@dataclass(slots=True)
class Lending:
    """Who lends what to whom."""

    exchange: Exchange
    kept: float
    """Share of its blocks that an instance does not lend."""
    instances: list[Instance] = field(default_factory=list)
    loans: dict[int, list[Loan]] = field(default_factory=dict)
    most_lent: int = 0
    exchange_s: float = 0.0

    def begin(self, instances: list[Instance]) -> None:
        """The run begins."""
        self.instances = instances
        for one in instances:
            one.lending = self
            self.loans[one.index] = []

    def blocks_of_all(self) -> int:
        """KV blocks of all instances together."""
        return sum(one.limits.blocks for one in self.instances)

    def could(self, one: Instance, blocks: int) -> bool:
        """Whether an instance could get so many blocks from others, were they all idle."""
        lendable = sum(int(x.limits.blocks * (1.0 - self.kept)) for x in self.instances if x is not one)
        return blocks <= lendable

    def borrow(self, one: Instance, blocks: int) -> bool:
        """Get so many blocks, from the instances with the most free ones; all or none.

        An instance that is at work with queued requests does not lend: they would take those blocks next.
        """
        if one.lent:
            return False  # who lends does not borrow
        free = [
            (x.capacity - x.used - int(self.kept * x.limits.blocks), x)
            for x in self.instances
            if x is not one and not x.borrowed and not (x.waiting and x.running)
        ]
        free = sorted(((room, x) for room, x in free if room > 0), key=lambda pair: (-pair[0], pair[1].index))
        if sum(room for room, _ in free) < blocks:
            return False
        for room, lender in free:
            taken = min(room, blocks)
            lender.lent += taken
            one.borrowed += taken
            blocks -= taken
            if lender.cache is not None:
                lender.cache.evict(lender.capacity - lender.used)
            own = next((loan for loan in self.loans[one.index] if loan.lender is lender), None)
            if own is None:
                self.loans[one.index].append(Loan(lender, taken))
            else:
                own.blocks += taken
            if not blocks:
                break
        self.most_lent = max(self.most_lent, sum(x.lent for x in self.instances))
        return True

    def settle(self, one: Instance) -> None:
        """Give back what fits on the instance itself again, the last loan first."""
        surplus = min(one.capacity - one.used, one.borrowed)
        loans = self.loans[one.index]
        while surplus > 0 and loans:
            loan = loans[-1]
            back = min(surplus, loan.blocks)
            loan.blocks -= back
            loan.lender.lent -= back
            one.borrowed -= back
            surplus -= back
            if not loan.blocks:
                loans.pop()

    def kv(self, one: Instance, tokens: float) -> float:
        """Tokens whose keys and values an instance's iteration waits for.

        Its own and lent out ones; or, of what it borrowed, the largest part on another instance, where that is more.
        """
        block = one.limits.block
        away = min(float(one.borrowed * block), tokens)
        here = (
            tokens
            - away
            + sum(
                loan.blocks * block
                for other in self.instances
                if other is not one
                for loan in self.loans[other.index]
                if loan.lender is one
            )
        )
        most = max((float(loan.blocks * block) for loan in self.loans[one.index]), default=0.0)
        return max(here, min(most, away))

    @property
    def horizon(self) -> int:
        """Decode steps after which loans are looked at again."""
        return LOOKS if any(self.loans.values()) else 1 << 30

    def starved(self) -> list[Instance]:
        """Instances that stand still with queued requests, which others may have room for now."""
        return [one for one in self.instances if one.mode == "idle" and one.waiting]

    def report(self, duration_s: float) -> dict[str, float]:
        """What was lent.

        Args:
            duration_s: of the run.
        """
        return {
            "most_lent_share": self.most_lent / max(self.blocks_of_all(), 1),
            "exchange_share": self.exchange_s / max(duration_s * len(self.instances), 1e-12),
        }

    def seconds(self, one: Instance, sequences: Sequence[Request], prompt_tokens: int) -> float:
        """What an iteration adds for queries that go to lenders and come back.

        Args:
            one: the borrower.
            sequences: that take a decode step.
            prompt_tokens: that are computed, each a query.
        """
        loans = self.loans[one.index]
        if not loans or not (sequences or prompt_tokens):
            return 0.0
        away, count = one.borrowed * one.limits.block, prompt_tokens
        for stored in sorted((q.stored for q in sequences), reverse=True):
            count += 1
            away -= stored
            if away <= 0:
                break
        x = self.exchange
        node = x.node_of[one.index]
        slowest = max(
            (x.inside if x.node_of[loan.lender.index] == node else x.outside for loan in loans),
            key=lambda link: 2.0 * link[0] + count * x.query_bytes / link[1],
        )
        added = x.layers * (2.0 * slowest[0] + count * x.query_bytes / slowest[1])
        self.exchange_s += added
        return added
