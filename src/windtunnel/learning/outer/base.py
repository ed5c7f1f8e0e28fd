"""Outer optimizers: what becomes of the mean difference between the anchor and the workers."""

from __future__ import annotations

from typing import Protocol

from windtunnel.arrays import Reals


class OuterOptimizer(Protocol):
    """A rule that moves an anchor along a pseudo-gradient."""

    @property
    def states(self) -> tuple[str, ...]:
        """Names of its states, shaped like the anchor."""

    def step(self, anchor: Reals, difference: Reals, state: dict[str, Reals], round_number: int) -> None:
        """Move the anchor in place.

        Args:
            anchor: Shape (rows, entries), rows 1 or workers; a view where a fragment moves.
            difference: Pseudo-gradient: mean of anchor − params, of the same shape.
            state: By name, of the same shape; changed in place.
            round_number: Counted from 0.
        """
