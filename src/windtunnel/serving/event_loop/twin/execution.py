"""How an instance of the reference loop computes what it has, where that is not one iteration after the other."""

from __future__ import annotations

from typing import Protocol

from windtunnel.serving.event_loop.recorder import Recorder
from windtunnel.serving.event_loop.twin.batch_policy import Policy
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request


class Execution(Protocol):
    """Of one instance. It sets `busy_until` to its next event, and counts its own iterations."""

    def wake(self, one: Instance, now: float, policy: Policy, record: Recorder | None) -> None:
        """Requests came to the instance, or room."""

    def complete(self, one: Instance, now: float, record: Recorder | None) -> list[Request]:
        """End what is over at `busy_until`; returns the requests that ended with it."""
        ...

    def form(self, one: Instance, now: float, policy: Policy, record: Recorder | None) -> None:
        """Start what comes next."""
