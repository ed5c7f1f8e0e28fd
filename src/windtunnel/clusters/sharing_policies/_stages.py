"""Iterations made of stages that use one resource each, and what happens where several jobs' stages share resources."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from windtunnel.clusters.jobs import Jobs
from windtunnel.errors import BadInput, Problem

SLOTS = 4
"""Resources: storage, CPU, GPU, network. A trace with three has storage and CPU as one stage of two slots."""


class Stages(NamedTuple):
    """One iteration of a job."""

    seconds: tuple[float, ...]
    """Of each stage, in order."""
    alone_s: float
    """The iteration alone."""


def stages_of(jobs: Jobs, policy: str) -> list[Stages]:
    """Of each job.

    Raises:
        BadInput: the trace does not say.
    """
    if jobs.stages_s is None or jobs.iteration_s is None:
        rule = f"{policy} needs the stages of an iteration, and the trace has none (columns resource_time_0_ms, …)"
        raise BadInput(Problem("jobs.policy", rule, policy))
    columns = jobs.stages_s.tolist()
    return [Stages(tuple(row), float(own)) for row, own in zip(columns, jobs.iteration_s, strict=True)]


@lru_cache(maxsize=100_000)
def together_s(group: tuple[Stages, ...]) -> float:
    """Seconds in which every job of a group does one iteration, stages interleaved in the best order.

    In each slot every resource belongs to one job at most, and the slot lasts as long as the longest stage in it (Muri,
    SIGCOMM 2022, section 4.2).
    """
    if len(group) == 1:
        return group[0].alone_s
    nobody = Stages((0.0,) * len(group[0].seconds), 0.0)
    return min(_rotation_s(order) for order in permutations((*group, *(nobody,) * (SLOTS - len(group)))))


def _rotation_s(order: Sequence[Stages]) -> float:
    """Period of a rotation in which job i is i slots behind."""
    if len(order[0].seconds) == SLOTS:
        return sum(max(job.seconds[(s - i) % SLOTS] for i, job in enumerate(order)) for s in range(SLOTS))
    ends = [0.0]  # of slots; the first stage lasts two of them
    turns = 6
    for slot in range(SLOTS * turns):
        end = ends[slot]
        for i, job in enumerate(order):
            first, second, third = job.seconds
            phase = (slot - i) % SLOTS
            if phase == 1:
                end = max(end, (ends[slot - 1] if slot else 0.0) + first)
            elif phase > 1:
                end = max(end, ends[slot] + (second if phase == 2 else third))
        ends.append(end)
    return (ends[-1] - ends[-1 - 2 * SLOTS]) / 2


@lru_cache(maxsize=100_000)
def in_gaps_s(job: Stages, owner: Stages) -> float:
    """Seconds of an iteration that uses each resource only while the owner's iterations do not.

    The owner repeats its stages without pause. The mean of iterations after the first ones is taken.
    """
    lengths = owner.seconds
    period = sum(lengths)
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    now, warm, counted = 0.0, 4, 36
    begun = 0.0
    for turn in range(warm + counted):
        if turn == warm:
            begun = now
        for stage, wanted in enumerate(job.seconds):
            now = _use_gaps(now, wanted, starts[stage], lengths[stage], period)
            if now == float("inf"):
                return now
    return (now - begun) / counted * job.alone_s / max(sum(job.seconds), 1e-12)


def _use_gaps(now: float, wanted: float, start: float, length: float, period: float) -> float:
    """When that many seconds of a resource have been had; the owner takes `length` from `start` of each period."""
    gap = period - length
    if gap <= 1e-9 * period:
        return now if wanted <= 0 else float("inf")
    phase = (now - start) % period
    if phase < length and wanted > 0:
        now, phase = now + length - phase, length
    first = period - phase
    if wanted <= first:
        return now + wanted
    turns = int((wanted - first) // gap)
    rest = wanted - first - turns * gap
    return now + first + turns * period + ((length + rest) if rest > 0 else 0.0)


@lru_cache(maxsize=100_000)
def in_whole_iterations_s(job: Stages, owner: Stages) -> float:
    """Seconds of an iteration that takes a whole number of the owner's, as Muri's simulator counts them.

    Stage by stage a resource is had while the owner is at its other two stages. A stage that ends within an iteration
    of the owner leaves the rest of it to the next stage, as far as the owner does not use that one's resource then; a
    last stage that fits the owner's first one needs no iteration more. Of traces with three stages.
    """
    first, second, third = owner.seconds
    gaps = (second + third, first + third, first + second)
    if min(gaps) <= 0:
        return float("inf")
    wanted = list(job.seconds)
    turns, rest = divmod(wanted[0], gaps[0])
    if rest > 0:
        turns += 1
        wanted[1] -= min(wanted[1], third, gaps[0] - rest)
    whole, rest = divmod(wanted[1], gaps[1])
    turns += whole
    if rest > 0:
        turns += 1
        wanted[2] -= min(wanted[2], gaps[2] - rest) if rest < first else 0.0
    whole, rest = divmod(wanted[2], gaps[2])
    turns += whole + (rest > first)
    return turns * owner.alone_s
