"""Volume and utilisation of DiLoCo over continents."""

from __future__ import annotations

from dataclasses import replace

from windtunnel.learning.timing.links import Link
from windtunnel.learning.timing.lock_step import time_lock_step
from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "intellect-1")
fixed = EXPERIMENT.fixed


def volume() -> float:
    """Bytes of dense gradients in each step over those of its exchanges."""
    steps = fixed("steps")
    target = Target(step_s=1.0, layers=stated_layers(fixed("parameters"), 42))
    nbytes = []
    for id, knobs in (("data_parallel", {}), ("intellect-1", {"period": steps})):
        messages = messages_on_target(id, knobs, target, 14, steps)
        nbytes.append(sum(m.nbytes(target.shapes) for step in range(steps) for m in messages(step)))
    return nbytes[0] / nbytes[1]


def computing(region: str) -> float:
    """Per cent of the time in steps where an all-reduce takes the region's seconds, by the clock."""
    steps, inner_s, exchange_s, workers = fixed("steps"), fixed("inner_s"), fixed("exchange_s")[region], 2
    bare = Target(step_s=inner_s / steps, layers=stated_layers(fixed("parameters"), 42))
    messages = messages_on_target("intellect-1", {"period": steps}, bare, workers, steps)
    nbytes = sum(m.nbytes(bare.shapes) for step in range(steps) for m in messages(step))
    rate = nbytes * 2 * (workers - 1) / workers / exchange_s
    link = Link(up_bytes_per_s=rate, down_bytes_per_s=rate, algorithm="ring")
    return 100 * time_lock_step(messages, replace(bare, link=link), workers, 10 * steps).steady_utilisation


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "volume": lambda v: volume(),
        "usa": lambda v: computing("usa"),
        "atlantic": lambda v: computing("atlantic"),
        "world": lambda v: computing("world"),
    }
