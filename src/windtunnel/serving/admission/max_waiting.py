"""Shed requests while the instance's queue is full."""

from __future__ import annotations

from windtunnel.serving.admission.base import ADMISSION
from windtunnel.serving.event_loop.twin.admission import Admission
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.techniques.base import Knob


@ADMISSION.register("max_waiting")
class MaxWaiting(Admission):
    """A queue of at most so many requests."""

    id = "max_waiting"
    title = "Shed requests while the queue is full"
    source = "SGLang server_args.py, max_queued_requests; TGI max_concurrent_requests"
    knobs = {"requests": Knob(128, 0, 1_000_000_000, "queued requests, beyond those that run")}

    def accepts(self, one: Instance, q: Request, now: float) -> bool:
        """Tell whether there is room in the queue."""
        return one.waiting < int(self.context.options["requests"])
