"""Published orders of learning algorithms on the small Markov language, with the validity gate (minutes).

What the prototype showed has to be shown here. Where this task does not show it, the test says so and fails strictly:
the bar stays as asked. What the prototype did not show is only run, and stands on the page as found.
"""

import os

import pytest

from windtunnel.learning.validity import MIN_NOISE_WIDTHS, MIN_OUTER_ROUNDS
from windtunnel_lab.models.learning.orderings import ORDERINGS, run_ordering

MISSES: dict[str, str] = {
    "period": "at a constant rate, rounds of 10 and of 25 steps tie; rounds of 100 and 250 steps are too few",
    "period-fifty-rounds": "at a constant rate and 12,500 steps, longer rounds average more noise away and are better",
    "fixed-tokens": "at a constant rate, data parallelism wants a larger rate and one replica a smaller one",
    "lost-gradients": "a third of the excess loss (2.1 % of perplexity, as published) where 5 % were asked for",
    "largest-quarter": "6 % of the excess loss where 2 % were allowed",
    "period-cosine": "the order is as published, but rounds of 100 and 250 steps are too few for the gate",
    "fixed-tokens-cosine": "as published but for one and two replicas, which tie",
    "lost-gradients-cosine": "40 % of the excess loss where 5 % were asked for",
}
"""Ordering → why it is not resolved as published."""
_LONG = {"period-fifty-rounds", "period-cosine", "size", "sparseloco"}
MINUTES: set[str] = set() if "WINDTUNNEL_ORDERINGS" in os.environ else _LONG
"""Orderings that take more than a minute of a core each. `make learning-orderings` runs them and writes the page; the
long suite takes them with WINDTUNNEL_ORDERINGS=all."""


@pytest.mark.slow
@pytest.mark.validation
@pytest.mark.parametrize(
    "ordering",
    [
        pytest.param(o, id=o.id, marks=pytest.mark.xfail(strict=True, reason=MISSES[o.id]) if o.id in MISSES else ())
        for o in ORDERINGS
        if o.resolved_before and o.id not in MINUTES
    ],
)
def test_resolved_as_published(ordering):
    judged = run_ordering(ordering)
    assert judged.direction == "as published", judged.findings
    assert judged.resolved, judged.reasons


@pytest.mark.slow
@pytest.mark.validation
@pytest.mark.parametrize(
    "ordering", [pytest.param(o, id=o.id) for o in ORDERINGS if not o.resolved_before and o.id not in MINUTES]
)
def test_shown_as_found(ordering):
    judged = run_ordering(ordering)
    assert judged.direction in ("as published", "contrary", "tie")
    assert judged.resolved or judged.direction == "tie" or judged.reasons


def test_the_gate_is_the_one_that_was_asked_for():
    assert (MIN_OUTER_ROUNDS, MIN_NOISE_WIDTHS) == (50, 5.0)
    assert len({o.id for o in ORDERINGS}) == len(ORDERINGS)
    for o in ORDERINGS:
        labels = {c.label for c in o.contenders}
        assert all({r.better, r.worse} <= labels for r in o.relations)
