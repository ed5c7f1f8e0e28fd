"""Terms that settings which were assumed add to the interval of a step time, in quadrature.

Residuals of measured runs tell how far the model is off where the configuration is known. What a scenario leaves open
is another source of error, independent of it: the run may have used another value than the one that was assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from windtunnel.training.results.records import Interval

_SIGMAS = 1.2816
"""Standard deviations to either side that hold 80 % of a normal distribution."""


@dataclass(frozen=True, slots=True)
class BandTerm:
    """What one assumed setting adds to the interval of a step time."""

    name: str
    """Field of the scenario that was assumed, such as plan.recompute."""
    low_log: float
    """Logarithm of the step's change towards shorter steps; at most zero."""
    high_log: float
    """Logarithm of the step's change towards longer steps; at least zero."""
    text: str
    """What was assumed, and what the farthest alternative does to the step."""


def term_of(name: str, changes: Sequence[float], text: str) -> BandTerm:
    """The term of one setting.

    Nothing is known of which value ran, so the assumed one and its alternatives count alike. Each side of the term is
    the deviation that holds 80 % of a normal distribution with the mean square of the changes to that side, and never
    more than the farthest change itself.

    Args:
        name: Field of the scenario.
        changes: log(step under an alternative / step as predicted) of each alternative.
        text: The term in words.
    """
    values = len(changes) + 1

    def side(own: Sequence[float]) -> float:
        if not own:
            return 0.0
        return min(max(own), _SIGMAS * math.sqrt(sum(c * c for c in own) / values))

    return BandTerm(name, -side([-c for c in changes if c < 0.0]), side([c for c in changes if c > 0.0]), text)


def with_terms(band: Interval, step_time_s: float, terms: Sequence[BandTerm]) -> Interval:
    """The interval of a step time with the terms of assumed settings added in quadrature, and named in its basis.

    Args:
        band: The band where every setting is known.
        step_time_s: The predicted step time.
        terms: One for each assumed setting.
    """
    if not terms:
        return band
    low = math.hypot(math.log(step_time_s / band.low), *(t.low_log for t in terms))
    high = math.hypot(math.log(band.high / step_time_s), *(t.high_log for t in terms))
    return replace(
        band,
        low=step_time_s * math.exp(-low),
        high=step_time_s * math.exp(high),
        basis="; ".join([band.basis, *(t.text for t in terms)]),
    )
