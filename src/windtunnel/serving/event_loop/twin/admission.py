"""Which requests the loop in Python sheds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.queue import Context
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.techniques.base import Knob


class Admission:
    """Which requests are shed when they arrive. Override `accepts` to try a rule."""

    id: ClassVar[str] = ""
    title: ClassVar[str] = ""
    source: ClassVar[str] = ""
    knobs: ClassVar[Mapping[str, Knob]] = {}

    def __init__(self, context: Context | None = None) -> None:
        self.context = context or Context()

    def begin(self, instances: Sequence[Instance]) -> None:
        """The run begins."""

    def ended(self, one: Instance, q: Request) -> None:
        """An answer is complete."""

    def accepts(self, one: Instance, q: Request, now: float) -> bool:
        """Whether an instance takes a request."""
        return True
