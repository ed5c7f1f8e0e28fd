"""What the settings that a row leaves open add to the interval of its step time."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from windtunnel.specs.scenario import Scenario
from windtunnel.training.explain.assumed_fields import SUBJECTS, Predicted, assumed_terms
from windtunnel.training.step_setup import PreparedStep
from windtunnel.training.uncertainty.band_terms import BandTerm


def terms_of_row(
    prepared: PreparedStep, scenario: Scenario, step_time_s: float, left_open: Collection[str], *, memory_fits: bool
) -> tuple[BandTerm, ...]:
    """Terms of plausible alternatives, simulated; none where the row leaves nothing open.

    Args:
        prepared: The resolved step of the row.
        scenario: The row's scenario.
        step_time_s: Its predicted step time.
        left_open: `RowCase.assumed_fields`.
        memory_fits: Whether the step fits the devices.
    """
    if not left_open:
        return ()
    predicted = Predicted(step=prepared, scenario=scenario, step_time_s=step_time_s, memory_fits=memory_fits)
    return assumed_terms(predicted, {_field(name) for name in left_open})


def _field(subject: str) -> str:
    """The assumed setting of a subject that a row leaves open, with the value that it names."""
    name, separator, value = subject.partition("=")
    return f"{SUBJECTS[name]}{separator}{value}"


def half_widths(terms: Sequence[BandTerm]) -> tuple[float, float]:
    """Terms together, towards shorter and towards longer steps, as logarithms of at least zero."""
    return math.hypot(*(t.low_log for t in terms)), math.hypot(*(t.high_log for t in terms))
