"""A row of filters: events of a detector are thinned stage by stage; what passes costs links and computation.

Each stage passes one event of `reduction`, those with the highest score. Scores of relevant events lie `separation`
standard deviations above those of the others (both normal): the stage's whole skill in one number. What an early stage
drops is never sent or computed later, and what a late stage drops has been paid for.

Source: Olin-Ammentorp, Wu and Chien, APL Machine Learning 2(4), 2024, arXiv 2407.00123: stages, link
energies, F1 score, relevant samples a joule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One stage."""

    name: str
    reduction: float
    """Events in over events out."""
    separation: float
    """Distance of the scores of relevant events from those of the others, in standard deviations."""
    operations: Callable[[float], float]
    """Bytes of an event → operations, in any unit that `joules_per_operation` shares."""
    joules_per_operation: float
    added_bytes: float = 0.0
    """What the stage adds to an event."""
    link_joules_per_bit: float = 0.0
    """Of the link that brings events to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What leaves a stage, and what it took."""

    relevant_per_s: float
    others_per_s: float
    link_w: float
    compute_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFigures:
    """The whole row."""

    stages: tuple[Passed, ...]
    power_w: float
    precision: float
    recall: float
    f1: float
    relevant_samples_per_j: float
    """F1 score times events kept a joule, as the paper counts them."""


def error_rates(reduction: float, separation: float, prevalence: float) -> tuple[float, float]:
    """(share of relevant events that pass, share of the others that pass) where one of `reduction` events passes."""
    wanted = 1.0 / reduction

    def rates(threshold: float) -> tuple[float, float]:
        return 1.0 - _NORMAL.cdf(threshold - separation), 1.0 - _NORMAL.cdf(threshold)

    low, high = -10.0, 10.0 + separation
    for _ in range(200):
        middle = 0.5 * (low + high)
        hit, false = rates(middle)
        if prevalence * hit + (1.0 - prevalence) * false > wanted:
            low = middle
        else:
            high = middle
    return rates(high)


def separation_of(hit: float, false: float) -> float:
    """The separation of a filter that passes these shares of relevant and of other events."""
    return _NORMAL.inv_cdf(hit) - _NORMAL.inv_cdf(false)


def figures(
    stages: Sequence[Filter], *, events_per_s: float, event_bytes: float, relevant_per_s: float, source_w: float = 0.0
) -> PipelineFigures:
    """Power, skill and yield of a row of filters.

    Args:
        stages: in the order in which events pass them.
        events_per_s: that the detector sees.
        event_bytes: that it sends of each.
        relevant_per_s: events that should be kept.
        source_w: watts of what lies before the first stage's link.

    Raises:
        ValueError: a stage would pass more events than reach it, or there are more relevant events than events.
    """
    if not 0.0 < relevant_per_s <= events_per_s:
        raise ValueError(f"relevant_per_s = {relevant_per_s:g}: above 0, at most events_per_s = {events_per_s:g}")
    relevant, others, nbytes = relevant_per_s, events_per_s - relevant_per_s, event_bytes
    power, passed = source_w, []
    for stage in stages:
        if stage.reduction < 1.0:
            raise ValueError(f"{stage.name}: reduction = {stage.reduction:g}: 1 or more")
        rate = relevant + others
        link_w = rate * nbytes * 8.0 * stage.link_joules_per_bit
        nbytes += stage.added_bytes
        compute_w = rate * stage.operations(nbytes) * stage.joules_per_operation
        hit, false = error_rates(stage.reduction, stage.separation, relevant / rate)
        relevant, others, power = relevant * hit, others * false, power + link_w + compute_w
        passed.append(Passed(relevant_per_s=relevant, others_per_s=others, link_w=link_w, compute_w=compute_w))
    kept, recall = relevant + others, relevant / relevant_per_s
    precision = relevant / kept
    f1 = 2.0 * precision * recall / (precision + recall)
    return PipelineFigures(
        stages=tuple(passed),
        power_w=power,
        precision=precision,
        recall=recall,
        f1=f1,
        relevant_samples_per_j=f1 * kept / power,
    )
