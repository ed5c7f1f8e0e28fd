"""The bandwidth at which workers compute 80 % of the time, and the size of exchanges."""

from __future__ import annotations

from windtunnel.learning.timing.bandwidth import bandwidth_for
from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "streaming-diloco")
fixed = EXPERIMENT.fixed


def _target(layers: int) -> Target:
    return Target(step_s=fixed("step_s"), layers=stated_layers(fixed("parameters"), layers))


def bandwidth_ratio(values: Values) -> float:
    """Bytes/s that data parallelism needs over those that Streaming DiLoCo needs, 80 % of the time computing."""
    target, workers, period = _target(fixed("layers")), values["workers"], fixed("period")
    streaming = {"period": period, "fragments": fixed("fragments"), "late": fixed("late")}
    needed = [
        bandwidth_for(0.8, messages_on_target(id, knobs, target, workers, steps), target, workers, steps=steps)
        for id, knobs, steps in (("data_parallel", {}, 20), ("streaming-diloco", streaming, 4 * period))
    ]
    return (needed[0] or float("inf")) / (needed[1] or float("inf"))


def peak() -> float:
    """Bytes of the largest exchange with three fragments over those with one."""
    target, period = _target(fixed("layers")), fixed("period")

    def largest(fragments: int) -> float:
        knobs = {"period": period, "fragments": fragments}
        messages = messages_on_target("streaming-diloco", knobs, target, 2, period)
        return max(m.nbytes(target.shapes) for step in range(period) for m in messages(step))

    return largest(3) / largest(1)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "bandwidth": bandwidth_ratio,
        "peak": lambda v: peak(),
    }
