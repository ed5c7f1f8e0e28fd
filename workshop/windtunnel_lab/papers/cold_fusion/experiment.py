"""A base model that contributors with other classes fine-tune and a repository averages."""

from __future__ import annotations

from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.target import Target, stated_layers
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned

EXPERIMENT = Experiment(__name__, "cold-fusion")
fixed = EXPERIMENT.fixed


def gain() -> float:
    """Loss of the base after one iteration over that after all."""
    period = fixed("period")
    section = {
        "task": fixed("task"),
        "workers": fixed("workers"),
        "steps": period * fixed("rounds"),
        "split": {"labels": fixed("labels")},
        "evaluate_every": period,
        "seeds": 2,
        "algorithms": [{"cold-fusion": {"finetune_steps": period}}],
    }
    curves = learned(section).curves
    return sum(float(c.loss[1]) for c in curves) / sum(float(c.loss[-1]) for c in curves)


def models_a_contribution() -> float:
    """Models of 32 bits a value that a contributor moves in an iteration."""
    target = Target(step_s=1.0, layers=stated_layers(1e6, 1))
    period = fixed("period")
    messages = messages_on_target("cold-fusion", {"finetune_steps": period}, target, fixed("workers"), 2 * period)
    moved = sum(m.nbytes(target.shapes) for step in range(period) for m in messages(step))
    return moved / (4.0 * target.parameters)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "gain": lambda v: gain(),
        "bytes": lambda v: models_a_contribution(),
    }
