"""Lower classes first, in order of arrival within a class; nobody in the batch gives way."""

from __future__ import annotations

from windtunnel.serving.event_loop.twin.queue import QUEUES, Queue


@QUEUES.register("priority")
class Priority(Queue):
    """By class, then in order of arrival."""

    id = "priority"
    title = "By class, then in order of arrival"
    source = "vLLM config/scheduler.py, policy priority (order of admission)"
    jitted = True
