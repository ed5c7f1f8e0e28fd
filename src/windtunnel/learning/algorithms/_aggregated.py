"""Data parallelism whose gradients are joined by a rule other than the mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from windtunnel.arrays import Reals
from windtunnel.errors import ProblemList, attempt
from windtunnel.learning.aggregators import AGGREGATORS, Aggregate
from windtunnel.learning.compose import Composed
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.job import Job
from windtunnel.learning.messages import Message
from windtunnel.learning.state import LearnerState
from windtunnel.runs.gradient_aggregation import mean
from windtunnel.techniques.knobs import named, names_a_part, with_defaults


@dataclass(slots=True)
class Aggregated(Composed):
    """A server sees every gradient and sends back one."""

    aggregate: Aggregate = mean

    def before_step(self, state: LearnerState, gradients: Reals, step: int) -> None:
        """See `LockStepAlgorithm.before_step`."""
        gradients[:] = self.aggregate(gradients.astype(np.float64))

    def messages(self, step: int) -> tuple[Message, ...]:
        """Gradients up, one down: no rule but the mean can be added on the way."""
        if self.job.workers == 1:
            return ()
        return (
            Message(kind="to_server", wire=Cast(32), after_step=step, needed_by=step + 1, during_backward=True),
            Message(kind="from_server", wire=Cast(32), after_step=step, needed_by=step + 1),
        )


def aggregator_of(value: Any, job: Job, problems: ProblemList, field: str = "aggregator") -> Aggregate:
    """The rule that a knob names, an id or {id: {knob: value}}; the mean where there is none such."""
    plain = mean
    if not names_a_part(value):
        problems.add(field, value, "must be the id of an aggregator, or {id: {knob: value}}")
        return plain
    name, given = named(value)
    kind = attempt(field, lambda: AGGREGATORS.get(name, field), problems)
    if kind is None:
        return plain
    before = len(problems)
    knobs = with_defaults(kind.knobs, given, f"{field}.{name}", problems)
    if len(problems) > before:
        return plain
    return cast(Aggregate, attempt(f"{field}.{name}", lambda: kind.build(job.workers, knobs), problems) or plain)
