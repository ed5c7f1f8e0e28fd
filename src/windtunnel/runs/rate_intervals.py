"""How well the rates of failures are known: the gamma distribution behind the 80 % interval of a counted rate."""

from __future__ import annotations

import math

from windtunnel.runs.progress_log import PRIOR_FAILURES
from windtunnel.specs.run import FailureCause, FailureProfile

_LEAST, _MOST = 0.5, 1e8
"""Shapes between which it is looked for: no failure was counted (Jeffreys' prior itself), and as good as known."""


def gamma_shape(rate: float, interval: tuple[float, float]) -> float:
    """Shape of the gamma distribution of mean 1 whose 80 % interval is as wide as that of a rate.

    The ratio of both ends decides; an interval from 0 on is read by its upper end over the rate. Infinite where the
    interval has no width or the rate is 0.

    Args:
        rate: The stated rate, which stays the mean.
        interval: Its 10th and 90th percentile, in its own unit.

    Source: the posterior of a Poisson rate is a gamma distribution, of shape count + 1/2 under Jeffreys' prior.
    """
    from scipy.optimize import brentq
    from scipy.special import gammaincinv

    low, high = interval
    if rate <= 0 or high <= low or high <= 0:
        return math.inf

    def off(log_shape: float) -> float:
        shape = math.exp(log_shape)
        top = float(gammaincinv(shape, 0.9))
        bottom = float(gammaincinv(shape, 0.1)) if low > 0 else shape
        return math.log(max(top, 1e-300) / max(bottom, 1e-300)) - math.log(high / (low if low > 0 else rate))

    ends = math.log(_LEAST), math.log(_MOST)
    if off(ends[0]) <= 0:
        return _LEAST
    return math.inf if off(ends[1]) >= 0 else math.exp(float(brentq(off, *ends)))


def rate_shapes(profile: FailureProfile) -> tuple[float, ...]:
    """`gamma_shape` of every cause, infinite without an interval; empty where no cause has one."""
    if not any(cause.rate_interval for cause in profile.causes):
        return ()
    return tuple(_shape(cause) for cause in profile.causes)


def _shape(cause: FailureCause) -> float:
    return math.inf if cause.rate_interval is None else gamma_shape(cause.rate, cause.rate_interval)


def shape_under_way(failures: int) -> float:
    """The same of the one factor on all rates that a log with so many failures has left."""
    return failures + PRIOR_FAILURES


def assumed_of_rates(profile: FailureProfile) -> tuple[tuple[str, str, str], ...]:
    """(field, value, why): which rates are drawn from their intervals, and which are taken as stated."""
    counted = [cause for cause in profile.causes if cause.rate_interval is not None]
    if not profile.causes:
        return ()
    if not counted:
        return (("run.failures", "rates as stated", "no rate_interval says how many failures they were counted from"),)
    of = f"{len(counted)} of {len(profile.causes)} rates drawn anew in each replication"
    return (("run.failures", of, "from the 80 % interval of its count (rate_interval), a gamma distribution"),)
