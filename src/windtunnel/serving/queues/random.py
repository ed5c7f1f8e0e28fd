"""In random order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from windtunnel.serving.event_loop.twin.queue import QUEUES, Context
from windtunnel.serving.queues.static_key import Keyed

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.request import Request

_STREAM = 11


@QUEUES.register("random")
class Random(Keyed):
    """Each request draws its place when it comes (SGLang shuffles the queue anew each time)."""

    id = "random"
    title = "At random"
    source = "SGLang managers/schedule_policy.py, random"

    def __init__(self, context: Context | None = None) -> None:
        super().__init__(context)
        self.rng = np.random.default_rng((self.context.seed, _STREAM))

    def key(self, q: Request) -> float:
        """A draw."""
        return float(self.rng.random())
