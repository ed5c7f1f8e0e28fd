"""One exchange over the internet: an all-reduce next to pairs; losses of both."""

from __future__ import annotations

from windtunnel.learning.timing.links import Link
from windtunnel.learning.timing.lock_step import time_lock_step
from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def sync_ratio(values: Values) -> float:
    """Seconds of an all-reduce over those of an exchange in pairs."""
    link = Link(
        up_bytes_per_s=fixed("gbit") * 1e9 / 8,
        down_bytes_per_s=fixed("gbit") * 1e9 / 8,
        latency_s=values["latency_ms"] / 1e3,
        latency_spread=values["spread"],
    )
    step_s = 1e-3
    target = Target(step_s=step_s, layers=stated_layers(fixed("message_mb") * 1e6 / 4, 1), link=link)
    seconds = []
    for id in ("diloco", "noloco"):
        messages = messages_on_target(id, {"period": 1}, target, fixed("peers"), 10)
        timing = time_lock_step(messages, target, fixed("peers"), 10)
        seconds.append(float(timing.time_s[-1]) / 10 - step_s)
    return seconds[0] / seconds[1]


def loss_of_diloco(values: Values) -> float:
    """Loss of DiLoCo over that of NoLoCo."""
    period = {"period": values["period"]}
    return loss_ratio(proxy(EXPERIMENT.setting, {"period": values["period"]}, [{"diloco": period}, {"noloco": period}]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "sync": sync_ratio,
        "loss": loss_of_diloco,
    }
