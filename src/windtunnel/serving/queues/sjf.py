"""Shortest job first by predicted length; nobody who is served gives way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.queue import QUEUES, Context
from windtunnel.serving.queues.length_prediction import ERROR, Predictor
from windtunnel.serving.queues.static_key import Keyed

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.request import Request


@QUEUES.register("sjf")
class ShortestJobFirst(Keyed):
    """The shortest predicted answer first."""

    id = "sjf"
    title = "Shortest predicted answer first"
    source = "Qiu et al. 2024, Efficient interactive LLM serving with proxy model-based sequence length prediction"
    knobs = {"error": ERROR}

    def __init__(self, context: Context | None = None) -> None:
        super().__init__(context)
        self.predictor = Predictor(self.context.options.get("error", 0.0), self.context.seed)

    def key(self, q: Request) -> float:
        """Its predicted answer."""
        return self.predictor.answer(q)
