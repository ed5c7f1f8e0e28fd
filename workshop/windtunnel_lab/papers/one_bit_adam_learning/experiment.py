"""Volume with a warm-up of uncompressed steps, and the loss next to Adam."""

from __future__ import annotations

from windtunnel.learning.timing.links import Link
from windtunnel.learning.timing.lock_step import time_lock_step
from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "one-bit-adam-learning")
fixed = EXPERIMENT.fixed


def volume(name: str) -> float:
    """Bytes that a worker sends in a run of 1,000 steps, Adam in 16 bits over 1-bit Adam."""
    steps = 1000
    link = Link(up_bytes_per_s=1e9, down_bytes_per_s=1e9, algorithm="ring")
    target = Target(step_s=1.0, layers=stated_layers(1e7, 1), link=link)
    own = {"warmup": fixed("warmups")[name], "warmup_bits": 16}
    sent = []
    for id, knobs in (("data_parallel", {"bits": 16}), ("one-bit-adam", own)):
        messages = messages_on_target(id, knobs, target, 8, steps)
        sent.append(float(time_lock_step(messages, target, 8, steps).worker_bytes[-1]))
    return sent[0] / sent[1]


def loss_over_adam(values: Values) -> float:
    """Loss of 1-bit Adam over that of data parallelism."""
    return loss_ratio(
        proxy(EXPERIMENT.setting, values, [{"one-bit-adam": {"warmup": fixed("warmup")}}, "data_parallel"])
    )


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "bert": lambda v: volume("bert"),
        "squad": lambda v: volume("squad"),
        "loss": loss_over_adam,
    }
