"""Drafts in rounds, alone and in step, against the target alone."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, reasoned
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def rate_of(values: Values, order: str) -> float:
    """Problems a second of drafts on one device and the target on its own."""
    knobs = {"n": fixed("chains"), "rounds": values["rounds"], "rejected": values["rejected"], "order": order}
    one = {"device": fixed("device"), "nodes": 1}
    return (
        reasoned(
            {
                "model": fixed("draft"),
                "cluster": {**one, "devices_per_node": 1},
                "programs": {
                    "strategy": {"draft_rounds": knobs},
                    "problems": fixed("problems"),
                    "offline": True,
                    "output_tokens": values["rounds"] * fixed("chunk"),
                    "verifier": {
                        "model": fixed("target"),
                        "cluster": {**one, "devices_per_node": fixed("target_devices")},
                        "plan": {"tp": fixed("target_devices")},
                        "replicas": 1,
                    },
                },
                "population": {"pass_1": 0.5, "concentration": 0.9},
            }
        )
    ).last.problems_per_s


def target_alone(values: Values) -> float:
    """Problems a second of the target's own chains on its devices."""
    return reasoned(
        {
            "model": fixed("target"),
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": fixed("target_devices")},
            "serving": {"pools": [{"plan": {"tp": fixed("target_devices")}}]},
            "programs": {
                "strategy": {"best_of_n": {"n": fixed("chains")}},
                "problems": fixed("problems"),
                "offline": True,
                "output_tokens": values["rounds"] * fixed("chunk"),
            },
            "population": {"pass_1": 0.5, "concentration": 0.9},
        }
    ).last.problems_per_s


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "asynchronous": lambda v: rate_of(v, "asynchronous") / rate_of(v, "synchronous"),
        "throughput": lambda v: rate_of(v, "asynchronous") / target_alone(v),
    }
