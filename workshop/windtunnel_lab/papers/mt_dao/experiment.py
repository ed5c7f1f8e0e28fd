"""Slow momenta next to fast ones: bytes, loss and time."""

from __future__ import annotations

from windtunnel.learning.timing.links import Link
from windtunnel.learning.timing.lock_step import time_lock_step
from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned, loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "mt-dao")
fixed = EXPERIMENT.fixed


def byte_ratio() -> float:
    """Bytes of data parallelism over those with parameters, one momentum and the variance each 32 steps."""
    every = fixed("rounds")
    own = {"mt-dao": {"period": every}}
    section = proxy(
        EXPERIMENT.setting, {}, ["data_parallel", own], task={"quadratic": {"params": 8}}, steps=4 * every, seeds=1
    )
    dense, mine = learned(section).algorithms
    return dense.bytes_per_worker / mine.bytes_per_worker


def slower(values: Values) -> float:
    """Loss of local Adam, which has a fast momentum alone, over that with a slow one next to it."""
    period = {"period": values["period"]}
    return loss_ratio(proxy(EXPERIMENT.setting, {}, [{"local_adam": period}, {"mt-dao": period}]))


def time_saved(values: Values) -> float:
    """Per cent of data parallelism's time saved at equal steps, largest over Ethernet's rates."""
    every, step_s = fixed("rounds"), values["step_s"]
    saved = []
    for gbit in fixed("gbits"):
        link = Link(up_bytes_per_s=gbit * 1e9 / 8, down_bytes_per_s=gbit * 1e9 / 8)
        target = Target(step_s=step_s, layers=stated_layers(fixed("parameters"), 24), link=link)
        seconds = []
        for id, knobs in (("data_parallel", {}), ("mt-dao", {"period": every})):
            messages = messages_on_target(id, knobs, target, 4, 4 * every)
            seconds.append(float(time_lock_step(messages, target, 4, 4 * every).time_s[-1]))
        saved.append(100 * (1 - seconds[1] / seconds[0]))
    return max(saved)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "bytes": lambda v: byte_ratio(),
        "slower": slower,
        "clock": time_saved,
    }
