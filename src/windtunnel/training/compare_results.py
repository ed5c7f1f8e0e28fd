"""How sure the order of two predicted steps is, from the predictions alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput
from windtunnel.training.predict import prepare
from windtunnel.training.uncertainty.comparable_runs import describe
from windtunnel.training.uncertainty.plan_difference import paired_difference

if TYPE_CHECKING:
    from windtunnel.training.results.training_result import TrainingResult
    from windtunnel.training.uncertainty.comparable_runs import Subject
    from windtunnel.training.uncertainty.plan_difference import PairedDifference


def between(a: TrainingResult, b: TrainingResult) -> PairedDifference | None:
    """B against A. Techniques count as settings that tell the two apart.

    None where a stored result can no longer be read as a scenario, or where clusters have groups of unlike devices,
    of which there are no measured pairs.
    """
    try:
        prepared = [prepare(r.scenario)[0] for r in (a, b)]
    except BadInput:  # a result stored by another version, or without its scenario
        return None
    if any(x.groups for x in prepared):
        return None
    one, other = (
        _with_techniques(describe(x.training, x.cluster, x.model, x.plan), r.scenario.get("techniques", ()))
        for x, r in zip(prepared, (a, b), strict=True)
    )
    return paired_difference(one, other, a.step_time_s, b.step_time_s, a.interval, b.interval)


def _with_techniques(subject: Subject, entries: Sequence[str | dict[str, Any]]) -> Subject:
    ids = [name for entry in entries for name in ([entry] if isinstance(entry, str) else entry)]
    return replace(subject, plan=" ".join([subject.plan, *(f"technique:{name}:" for name in ids)]))
