"""Time to a loss of learned weights and fetches midway, next to FedBuff and FedAsync."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned, loss_on_the_way
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def over_fedasmu(id: str, values: Values) -> float:
    """Time to the target of another algorithm over that of FedASMU; infinite where it never gets there."""
    steps = {"local_steps": fixed("period")}
    section = {
        "task": fixed("task"),
        "workers": fixed("clients"),
        "steps": 600,
        "batch": 16,
        "inner": "sgd",
        "split": {"dirichlet": values["dirichlet"]},
        "speeds": {"factors": fixed("speeds")},
        "step_s": 1.0,
        "seeds": 2,
        "evaluate_every": 2,
        "algorithms": [{id: steps}, {"fedasmu": steps}],
    }
    goal = {"loss": loss_on_the_way(section, fixed("target"))}
    found = learned({**section, "target": goal})
    other, mine = (a.time_to_target_s or float("inf") for a in found.algorithms)
    return 0.0 if mine == float("inf") else other / mine


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "fedbuff": lambda v: over_fedasmu("fedbuff", v),
        "fedasync": lambda v: over_fedasmu("fedasync", v),
    }
