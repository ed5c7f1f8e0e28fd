"""What a run of an algorithm holds: parameters and optimizer states of all workers, anchors, and what feedback kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Reals


@dataclass(slots=True)
class LearnerState:
    """State of all workers; one row a worker. A worker that dies takes its rows with it; a joiner copies the anchor."""

    params: Reals
    """Shape (workers, params)."""
    inner: dict[str, Reals] = field(default_factory=dict)
    """States of the inner optimizer by name (`m`, `v`), shape (workers, params) each."""
    anchor: Reals | None = None
    """Parameters that all agreed on last: shape (1, params) where all hold the same, else (workers, params)."""
    outer: dict[str, Reals] = field(default_factory=dict)
    """States of the outer optimizer by name (`momentum`), shaped like the anchor."""
    residual: dict[str, Reals] = field(default_factory=dict)
    """What error feedback keeps for the next message, by exchange (`gradients`, `parameters`), (workers, params)."""
    extra: dict[str, Reals] = field(default_factory=dict)
    """Anything else that an algorithm carries from step to step."""

    @property
    def workers(self) -> int:
        """Rows."""
        return len(self.params)


def started(initial: Reals, workers: int) -> LearnerState:
    """All workers at the same parameters, shape (params,)."""
    return LearnerState(params=np.tile(initial, (workers, 1)))
