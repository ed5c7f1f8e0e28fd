"""FedBuff once more, as plainly as it can be written: one round at a time, computed when it is fetched.

Shares nothing with the arrival-driven driver but the task, the pace and what an upload of s server steps late weighs.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np


def eager_fedbuff(
    task: Any, pace: Any, *, workers: int, steps: int, local_steps: int, buffer: int, lr: float, latency_s: float
) -> list[tuple[float, int, float]]:
    """(seconds, server steps, held-out loss) after each server step, of plain SGD with everyone active."""
    anchor, version, rounds = task.initial(), 0, [0] * workers
    on_way: list[tuple[float, int]] = []
    carried: dict[int, tuple[np.ndarray, int]] = {}
    waiting: list[tuple[np.ndarray, float]] = []
    out = [(0.0, 0, float(task.evaluate(anchor[None]).loss[0]))]

    def fetch(worker: int, now_s: float) -> None:
        x, gradient = anchor[None].copy(), np.empty((1, len(anchor)))
        for step in range(local_steps):
            batch = np.array([rounds[worker] * local_steps + step])
            task.gradients(x, np.array([worker]), batch, gradient)
            x -= lr * gradient
        seconds = pace.round_s(worker, rounds[worker], local_steps, now_s)
        rounds[worker] += 1
        carried[worker] = (anchor - x[0], version)
        heapq.heappush(on_way, (now_s + latency_s + seconds + latency_s, worker))

    for worker in range(workers):
        fetch(worker, 0.0)
    arrived = 0
    while arrived < steps * workers:
        now_s, worker = heapq.heappop(on_way)
        difference, fetched = carried.pop(worker)
        waiting.append((difference, (1.0 + version - fetched) ** -0.5))
        arrived += local_steps
        if len(waiting) == buffer:
            anchor = anchor - sum(weight * d for d, weight in waiting) / buffer
            version += 1
            waiting.clear()
            out.append((now_s, version, float(task.evaluate(anchor[None]).loss[0])))
        fetch(worker, now_s)
    return out
