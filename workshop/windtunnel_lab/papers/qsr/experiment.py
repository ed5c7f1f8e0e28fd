"""Hours of ViT-B with rounds that grow as the learning rate falls."""

from __future__ import annotations

from functools import lru_cache

from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=8)
def share_of_exchanges(alpha: float) -> float:
    """Exchanges of the rule over those of data parallelism."""
    steps = fixed("steps")
    lr = LearningRate(fixed("lr"), fixed("warmup"), "cosine", fixed("final"), steps)
    target = Target(step_s=1.0, layers=stated_layers(1e6, 1))
    messages = messages_on_target("qsr", {"alpha": alpha, "base": fixed("base")}, target, 16, steps, lr=lr)
    return float(sum(1 for step in range(steps) if messages(step)) / steps)


def hours_on_64(values: Values) -> float:
    """Hours on 64 GPUs, computing and exchanging solved from 16 GPUs, exchanges of 64 from data parallelism."""
    rows, share = fixed("hours"), share_of_exchanges(values["alpha"])
    exchanging = (rows["data_parallel_16"] - rows["rule_16"]) / (1.0 - share)
    computing = (rows["data_parallel_16"] - exchanging) * 16 / 64
    return float(computing + (rows["data_parallel_64"] - computing) * share)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "hours_64": hours_on_64,
        "exchanges": lambda v: 1.0 / share_of_exchanges(v["alpha"]),
    }
