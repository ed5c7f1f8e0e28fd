"""Bytes, outer optimizers, rounds and dropped exchanges of DiLoCo on a small language."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned, least_rise, loss_ratio, losses, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def byte_ratio() -> float:
    """Bytes of data parallelism over those of DiLoCo in rounds of 500 steps."""
    long = fixed("long")
    section = proxy(
        EXPERIMENT.setting, {"steps": 2 * long, "seeds": 1}, ["data_parallel", {"diloco": {"period": long}}]
    )
    dense, sparse = learned(section).algorithms
    return dense.bytes_per_worker_step / sparse.bytes_per_worker_step


def nesterov(values: Values) -> float:
    """Loss of plain outer averaging over that of Nesterov's momentum."""
    period = values["period"]
    return loss_ratio(
        proxy(EXPERIMENT.setting, values, [{"local_sgd": {"period": period}}, {"diloco": {"period": period}}])
    )


def rises() -> float:
    """Smallest ratio of a loss to that of the next shorter round."""
    algorithms = [{"diloco": {"period": period}} for period in fixed("periods")]
    return least_rise(losses(proxy(EXPERIMENT.setting, {}, algorithms)))


def dropped(values: Values) -> float:
    """Loss above the floor with dropped outer gradients over that without."""
    knobs = {"period": values["period"]}
    section = proxy(EXPERIMENT.setting, values, [{"diloco": {**knobs, "drop": fixed("drop")}}, {"diloco": knobs}])
    floor = learned(section).floor or 0.0
    first, second = losses(section)
    return (first - floor) / (second - floor)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "bytes": lambda v: byte_ratio(),
        "nesterov": nesterov,
        "rises": lambda v: rises(),
        "dropped": dropped,
    }
