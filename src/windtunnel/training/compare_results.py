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
    one, other = subject_of(a), subject_of(b)
    if one is None or other is None:
        return None
    return paired_difference(one, other, a.step_time_s, b.step_time_s, a.interval, b.interval)


def subject_of(result: TrainingResult) -> Subject | None:
    """The properties of a predicted run that comparisons use; its techniques count as settings of its plan.

    None where a stored result can no longer be read as a scenario, or where its cluster has groups of unlike devices.
    """
    try:
        prepared, _ = prepare(result.scenario)
    except BadInput:  # a result stored by another version, or without its scenario
        return None
    if prepared.groups:
        return None
    subject = describe(prepared.training, prepared.cluster, prepared.model, prepared.plan)
    return _with_techniques(subject, result.scenario.get("techniques", ()))


def _with_techniques(subject: Subject, entries: Sequence[str | dict[str, Any]]) -> Subject:
    ids = [name for entry in entries for name in ([entry] if isinstance(entry, str) else entry)]
    return replace(subject, plan=" ".join([subject.plan, *(f"technique:{name}:" for name in ids)]))
