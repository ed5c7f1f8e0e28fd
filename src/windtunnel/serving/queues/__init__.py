"""Who is served first: one file a discipline, found by the registry and by entry points `windtunnel.queues`."""

from windtunnel.serving.event_loop.twin.queue import QUEUES, Context, Queue

__all__ = ["QUEUES", "Context", "Queue"]
