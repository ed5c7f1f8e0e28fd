"""A byte a step, along drawn directions."""

from __future__ import annotations

from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "one-byte-zo")
fixed = EXPERIMENT.fixed


def bytes_a_step() -> float:
    """Bytes of a worker's encoding in a step, whatever is trained."""
    target = Target(step_s=1.0, layers=stated_layers(1e9, 16))
    messages = messages_on_target("one-byte-zo", {}, target, 8, 1)
    return sum(m.nbytes(target.shapes) for m in messages(0))


def start_over_end(values: Values) -> float:
    """Loss at the start over that at the end."""
    curves = learned(
        proxy(EXPERIMENT.setting, values, [{"one-byte-zo": {"largest": fixed("largest")}}], inner="sgd")
    ).curves
    return sum(float(c.loss[0]) for c in curves) / sum(float(c.loss[-1]) for c in curves)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "bytes": lambda v: bytes_a_step(),
        "descends": start_over_end,
    }
