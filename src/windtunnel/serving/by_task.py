"""Tasks of agents from end to end: from when a task begins to the end of its last call, tools included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.serving.metrics import distribution
from windtunnel.serving.requests import DONE, Requests

if TYPE_CHECKING:
    from windtunnel.specs.traffic import TrafficSpec


def by_task(requests: Requests, traffic: TrafficSpec, request_s: float) -> dict[str, dict[str, Any]]:
    """Figures by agent, and of all tasks; empty without agents.

    Args:
        requests: after a run.
        traffic: with its agents.
        request_s: client, HTTP and tokeniser, once a call.
    """
    if not traffic.agents or requests.after is None:
        return {}
    task = requests.after.task
    count = int(task.max()) + 1
    first = np.full(count, len(task), np.int64)
    np.minimum.at(first, task, np.arange(len(task)))
    calls = np.bincount(task)
    done = np.bincount(task, weights=requests.state == DONE) == calls
    begin, end = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(begin, task, np.nan_to_num(requests.arrival_s, nan=np.inf))
    np.maximum.at(end, task, np.nan_to_num(requests.finish_s, nan=-np.inf))
    depth = _depth(requests)
    deepest = np.zeros(count, np.int64)
    np.maximum.at(deepest, task, depth)
    latency = np.where(done, end - begin + request_s * deepest, np.nan)
    tokens = np.bincount(task, weights=requests.input_tokens + requests.output_tokens)
    which = requests.tenant[first]
    out: dict[str, dict[str, Any]] = {}
    limits = np.array([np.inf if one.latency_s is None else one.latency_s for one in traffic.agents])
    good = done & ~(latency > limits[which])
    for name, mine in [("all", np.ones(count, np.bool_))] + [
        (one.name, which == a) for a, one in enumerate(traffic.agents)
    ]:
        if not mine.any():
            continue
        out[name] = {
            "tasks": int(mine.sum()), "completed": int((mine & done).sum()),
            "calls_per_task": float(calls[mine].mean()),
            "tokens_per_task": float(tokens[mine].mean()), "attainment": float(good[mine].mean()),
            "latency_s": distribution(latency[mine]).to_dict(),
        }  # fmt: skip
    return out


def _depth(requests: Requests) -> Any:
    """(R,) calls on the longest path that ends with each; parents stand before children."""
    assert requests.after is not None
    depth = np.ones(len(requests), np.int64)
    start, children = requests.after.start, requests.after.children
    for i in range(len(requests)):
        for c in children[start[i] : start[i + 1]]:
            depth[c] = max(depth[c], depth[i] + 1)
    return depth
