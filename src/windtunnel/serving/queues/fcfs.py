"""In order of arrival: classes of priority are not read."""

from __future__ import annotations

from windtunnel.serving.event_loop.twin.queue import QUEUES, Queue


@QUEUES.register("fcfs")
class Fcfs(Queue):
    """First come, first served."""

    id = "fcfs"
    title = "In order of arrival"
    source = "vLLM config/scheduler.py, policy fcfs; SGLang schedule_policy.py, fcfs"
    jitted = True
