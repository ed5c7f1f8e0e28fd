"""Tokens of short answers for easy steps and long ones for hard."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce.claims import Measure, reasoned
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "scale-selective")
fixed = EXPERIMENT.fixed


def tokens(**knobs: Any) -> float:
    """Generated tokens of a problem."""
    found = reasoned(
        {
            "model": fixed("model"),
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 1},
            "programs": {
                "strategy": {"scale_selective": {"steps": fixed("steps"), **knobs}},
                "problems": fixed("problems"),
                "offline": True,
                "output_tokens": fixed("tokens"),
            },
            "population": {"pass_1": 0.6, "concentration": 0.9},
        }
    )
    return found.last.tokens


def saved(values: Values) -> float:
    """Per cent of tokens."""
    own = tokens(easy=values["easy"], short=values["short"], plan_tokens=fixed("plan"))
    return 100.0 * (1.0 - own / tokens(easy=0.0, plan_tokens=0))


def easy_steps(values: Values) -> float:
    """Share of easy steps that the paper's lower saving asks for."""
    return float((0.33 + fixed("plan") / fixed("tokens")) / (1.0 - values["short"]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"saved": saved, "easy_steps": easy_steps}
