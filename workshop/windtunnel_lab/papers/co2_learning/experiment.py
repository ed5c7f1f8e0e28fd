"""Exchanges that hide behind a round, and those that are longer; the loss next to data parallelism."""

from __future__ import annotations

from windtunnel.learning.timing.links import Link
from windtunnel.learning.timing.lock_step import time_lock_step
from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "co2-learning")
fixed = EXPERIMENT.fixed


def _round_s(share: float) -> float:
    """Seconds of a round whose exchange takes so many rounds of steps."""
    steps, step_s, workers = fixed("rounds"), fixed("step_s"), fixed("workers")
    nbytes = 4 * fixed("parameters") * 2 * (workers - 1) / workers
    rate = nbytes / (share * steps * step_s)
    link = Link(up_bytes_per_s=rate, down_bytes_per_s=rate, algorithm="ring")
    target = Target(step_s=step_s, layers=stated_layers(fixed("parameters"), 16), link=link)
    messages = messages_on_target("co2", {"period": steps}, target, workers, 40 * steps)
    timing = time_lock_step(messages, target, workers, 40 * steps)
    return float(timing.time_s[30 * steps] - timing.time_s[20 * steps]) / 10


def hidden() -> float:
    """Seconds of a round over those of its steps where the exchange takes half of it."""
    return float(_round_s(0.5) / (fixed("rounds") * fixed("step_s")))


def exposed() -> float:
    """Seconds beyond the steps over those by which the exchange is longer than the round, where it takes two."""
    steps_s = fixed("rounds") * fixed("step_s")
    return float((_round_s(2.0) - steps_s) / steps_s)


def loss_over_data_parallel(values: Values) -> float:
    """Loss of CO2 over that of data parallelism."""
    return loss_ratio(proxy(EXPERIMENT.setting, {}, [{"co2": {"period": values["period"]}}, "data_parallel"]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "hidden": lambda v: hidden(),
        "exposed": lambda v: exposed(),
        "loss": loss_over_data_parallel,
    }
