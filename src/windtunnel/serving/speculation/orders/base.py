"""A cycle of drafting and verifying: how many tokens it makes on the average, and how long it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A model and what drafts for it, in seconds for each size of the batch."""

    tokens: int
    """Drafted before they are verified together, k."""
    acceptance: tuple[float, ...]
    """Chance of each when those before it were kept; further ones as the last."""
    first_s: Floats
    """First pass that drafts, over what the cycle before kept."""
    pass_s: Floats
    """Each further pass."""
    verify_s: Floats
    """One pass of the model over what is verified together."""
    verifiers: int = 1
    """Instances of the model that verify at the same time."""
    early_exit: float = 0.5
    """Share of the model's pass after which it names candidates."""
    reuse: float = 0.0
    """Chance that what the model says was among the candidates that a draft went on from."""
    sync_s: float = 0.0
    """Seconds in which both sides exchange tokens, once a cycle."""

    @property
    def rollout_s(self) -> Floats:
        """All passes of a cycle, one after the other."""
        return self.first_s + (self.tokens - 1) * self.pass_s

    def rates(self, count: int) -> Floats:
        """Acceptances of the next `count` tokens."""
        known = self.acceptance
        return np.array([known[min(i, len(known) - 1)] for i in range(count)])


class Order(Protocol):
    """One file of this package."""

    title: ClassVar[str]
    source: ClassVar[str]

    def tokens(self, pair: Pair) -> float:
        """Mean tokens of a cycle."""
        ...

    def seconds(self, pair: Pair) -> Floats:
        """Mean seconds of a cycle."""
        ...


ORDERS: Registry[Order] = Registry("draft_orders", package="windtunnel.serving.speculation.orders", noun="order")
