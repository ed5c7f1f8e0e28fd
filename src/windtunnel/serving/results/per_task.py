"""Tasks from end to end, agents' and searches': from when one begins to the end of its last call, tools included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.arrays import Floats, Int32s, Ints, Mask
from windtunnel.serving.event_loop.requests import CANCELLED, DONE, Requests
from windtunnel.serving.results.metrics import distribution
from windtunnel.serving.traffic.trajectories import mean_held

if TYPE_CHECKING:
    from windtunnel.specs.traffic import TrafficSpec


@dataclass(frozen=True, slots=True)
class _Tasks:
    """Tasks of a run; (T,) each."""

    calls: Ints
    done: Mask
    """Whether all calls of a task were completed, but for those that it cancelled itself."""
    latency_s: Floats
    """Seconds from end to end; nan where a call was not completed."""
    tokens: Floats
    """Tokens of all prompts and answers; of a cancelled call, what was made of it."""
    source: Int32s
    """Number of the agent, 0 for a search."""


def by_task(requests: Requests, traffic: TrafficSpec, request_s: float) -> dict[str, dict[str, Any]]:
    """Compute figures of tasks by agent (or of the search), and of all tasks; empty where requests stand alone.

    Args:
        requests: requests after a run.
        traffic: traffic with its agents.
        request_s: seconds of client, HTTP and tokeniser, once a call.
    """
    if not traffic.agents and traffic.trajectories is None:
        return {}
    tasks = _tasks(requests, request_s)
    kinds = [(one.name, one.latency_s) for one in traffic.agents]
    if traffic.trajectories is not None:
        kinds = [(traffic.trajectories.method, traffic.trajectories.latency_s)]
    limits = np.array([np.inf if limit is None else limit for _, limit in kinds])
    good = tasks.done & ~(tasks.latency_s > limits[tasks.source])
    groups = [("all", np.ones(len(tasks.calls), np.bool_))]
    groups += [(name, tasks.source == a) for a, (name, _) in enumerate(kinds)]
    out: dict[str, dict[str, Any]] = {}
    for name, mine in groups:
        if not mine.any():
            continue
        out[name] = {
            "tasks": int(mine.sum()),
            "completed": int((mine & tasks.done).sum()),
            "calls_per_task": float(tasks.calls[mine].mean()),
            "tokens_per_task": float(tasks.tokens[mine].mean()),
            "attainment": float(good[mine].mean()),
            "latency_s": distribution(tasks.latency_s[mine]).to_dict(),
        }
    if traffic.trajectories is not None:
        held, alone = mean_held(requests)
        figures = {"held_tokens": float(held.mean()), "held_tokens_unshared": float(alone.mean())}
        out = {name: each | figures for name, each in out.items()}
    return out


def _tasks(requests: Requests, request_s: float) -> _Tasks:
    task = requests.group if requests.after is None else requests.after.task
    count = int(task.max()) + 1
    first = np.full(count, len(task), np.int64)
    np.minimum.at(first, task, np.arange(len(task)))
    calls = np.bincount(task)
    cancelled = requests.state == CANCELLED
    done = np.bincount(task, weights=(requests.state == DONE) | cancelled) == calls
    begin, end = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(begin, task, np.nan_to_num(requests.arrival_s, nan=np.inf))
    np.maximum.at(end, task, np.nan_to_num(requests.finish_s, nan=-np.inf))
    if requests.after is not None:  # a tool may run last
        joints = requests.after.tasks_of_nodes()[len(task) :]
        np.maximum.at(end, joints, np.nan_to_num(requests.after.over_s, nan=-np.inf))
    depth = np.ones(len(task), np.int64) if requests.after is None else _depth(requests)
    prompts = np.where(cancelled & np.isnan(requests.scheduled_s), 0, requests.input_tokens)
    answers = np.where(cancelled, requests.generated_tokens, requests.output_tokens)
    deepest = np.zeros(count, np.int64)
    np.maximum.at(deepest, task, depth)
    return _Tasks(
        calls=calls,
        done=done,
        latency_s=np.where(done, end - begin + request_s * deepest, np.nan),
        tokens=np.bincount(task, weights=prompts + answers).astype(np.float64),
        source=requests.tenant[first],
    )


def _depth(requests: Requests) -> Any:
    """(R,) calls on the longest path that ends with each; parents stand before children."""
    assert requests.after is not None
    count, start, children = len(requests), requests.after.start, requests.after.children
    depth = np.zeros(len(start) - 1, np.int64)
    depth[:count] = 1
    last = np.zeros(len(depth))  # a joint is known after the last that it waits for
    for i in range(count):
        last[children[start[i] : start[i + 1]]] = i + 0.5
    for i in np.argsort(np.where(np.arange(len(depth)) < count, np.arange(len(depth)), last), kind="stable"):
        below = children[start[i] : start[i + 1]]
        depth[below] = np.maximum(depth[below], depth[i] + (below < count))
    return depth[:count]
