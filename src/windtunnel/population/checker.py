"""A checker with rates: it accepts a right answer with probability t and a wrong one with probability f.

Attempts are drawn until one is accepted, at most n. An error of the checker is drawn anew for each attempt; a checker
that errs on the same problems again has less to gain from n.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population.pass_at_k import at_least_one

Fallback = Literal["last", "none"]
"""What is answered if no attempt is accepted: the last one, or nothing."""


def accepted_share(p: Floats, true_rate: float, false_rate: float) -> Floats:
    """Probability t·p + f·(1 − p) that an attempt is accepted, of problems with success probabilities p (Q,)."""
    share: Floats = true_rate * np.asarray(p, np.float64) + false_rate * (1.0 - np.asarray(p, np.float64))
    return share


def first_accepted(p: Floats, true_rate: float, false_rate: float, n: float, fallback: Fallback = "last") -> Floats:
    """Probability that the first accepted of at most n attempts is right.

    Args:
        p: success probability of a single attempt, shape (Q,).
        true_rate: t, share of right answers that are accepted.
        false_rate: f, share of wrong answers that are accepted.
        n: attempts at most.
        fallback: what is answered if none is accepted.

    Returns:
        Success probability, shape (Q,). With t = 1 and f = 0 it is 1 − (1 − p)^n.
    """
    p = np.asarray(p, np.float64)
    accepted = accepted_share(p, true_rate, false_rate)
    some = at_least_one(accepted, n)
    with np.errstate(divide="ignore", invalid="ignore"):
        right = np.where(accepted > 0, true_rate * p / accepted, 0.0) * some
        rejected = np.where(accepted < 1, (1.0 - true_rate) * p / (1.0 - accepted), 0.0)
    found: Floats = right + (1.0 - some) * rejected if fallback == "last" else right
    return found
