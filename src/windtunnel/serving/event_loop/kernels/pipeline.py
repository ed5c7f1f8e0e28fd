"""Micro-batches of one pipeline: they pass its scheduler and its stages one behind the other.

A stage starts a micro-batch when the stage before has delivered it and the stage itself is free. None overtakes
another, so that the times of one are known as it enters. A run of several decode steps is begun only where the other
lanes of the pipeline have nothing to do, and is cut as soon as one of them begins.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.records import IDLE, RUN
from windtunnel.serving.event_loop.kernels.state import Array, Pipelines, Record


@helper
def pass_stages(
    instance: Record, pipelines: Pipelines, seconds: float, tokens: int, sequences: int, now: float
) -> float:
    """Send a micro-batch through its pipeline, if it has any; returns the seconds that it waits for others on the way.

    Args:
        instance: the lane.
        pipelines: of all lines.
        seconds: of the micro-batch where it waits for none.
        tokens: that it computes, which stages hand on.
        sequences: in it.
        now: when it is handed to the scheduler.
    """
    line, pool = instance.line, instance.pool
    if line < 0:
        return 0.0
    stages, costs, free = pipelines.stages[line], pipelines.costs[pool], pipelines.free[line]
    host_s, head_s = costs[0] + costs[1] * sequences, costs[2] + costs[3] * sequences
    hop_s = costs[4] + costs[5] * tokens
    named = host_s + head_s + (stages - 1) * hop_s
    if named > seconds:  # techniques saved more than the layers take
        host_s, head_s, hop_s = host_s * (seconds / named), head_s * (seconds / named), hop_s * (seconds / named)
        named = seconds
    layers_s = seconds - named
    at, waited = now, 0.0
    for s in range(stages + 1):
        if free[s] > at:
            waited += free[s] - at
            at = free[s]
        if s == 0:
            at += host_s
        elif s < stages:
            at += layers_s * pipelines.shares[pool, s - 1] + hop_s
        else:
            at += layers_s * pipelines.shares[pool, s - 1] + head_s
        free[s] = at
    return waited


@helper
def run_steps_under_way(start: float, first: float, slope: float, now: float) -> int:
    """Steps of a run that have begun by now, one at least."""
    past = now - start
    half = first - 0.5 * slope
    reach = half + np.sqrt(max(half * half + 2.0 * slope * past, 0.0))
    steps = max(int(2.0 * past / reach), 1) if reach > 0.0 else 1
    while steps * first + slope * (0.5 * steps * (steps - 1)) < past:
        steps += 1
    while steps > 1 and (steps - 1) * first + slope * (0.5 * (steps - 1) * (steps - 2)) >= past:
        steps -= 1
    return steps


@helper
def join_pipeline(instances: Array, k: int, limits: Array, pipelines: Pipelines, now: float) -> None:
    """Note in `in_stages` whether other lanes of instance k's pipeline are at work.

    A run of one of them ends with its step under way, which is sent through the stages.
    """
    one = instances[k]
    line, one.in_stages = one.line, 0
    if line < 0:
        return
    for j in range(pipelines.first[line], pipelines.first[line] + pipelines.lanes[line]):
        other = instances[j]
        if j == k or other.mode == IDLE:
            continue
        one.in_stages = 1
        if other.mode != RUN or other.in_stages:
            continue
        other.in_stages = 1
        first, slope = other.first_step, other.slope
        steps = min(run_steps_under_way(other.start, first, slope, now), other.steps)
        other.steps = steps
        other.end = other.start + (steps * first + slope * (0.5 * steps * (steps - 1)))
        if steps > 1:
            begun = other.start + ((steps - 1) * first + slope * (0.5 * (steps - 1) * (steps - 2)))
            tokens = other.decoding * limits[other.pool].step_tokens
            pass_stages(other, pipelines, first + slope * (steps - 1), tokens, other.decoding, begun)
