"""Scores by time to target: by hand, and over results of windtunnel learn."""

from __future__ import annotations

from windtunnel import api
from windtunnel_lab.models.learning.performance_profiles import scores, times_of
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def by_hand() -> float:
    """Largest difference of the scores to those integrated by hand."""
    table = {task: dict(zip("abc", map(float, row), strict=True)) for task, row in fixed("times").items()}
    return float(max(abs(a - b) for a, b in zip(scores(table).values(), fixed("scores"), strict=True)))


def best() -> float:
    """Score of the fastest everywhere."""
    return scores({task: {"first": 1.0, "second": 2.0} for task in "abcd"})["first"]


def learned() -> float:
    """Larger score of two algorithms over tasks of learn; above 1 where one of them is outside 0 to 1."""
    case = fixed("learn")
    ran = [
        api.simulate_learning(
            {
                "model": "gpt3-125m",
                "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
                "training": {"global_batch": 8, "seq_len": 1024},
                "learning": {
                    "task": task,
                    "workers": case["workers"],
                    "steps": case["steps"],
                    "algorithms": case["algorithms"],
                    "target": {"loss": loss},
                    "link": {"bandwidth": "1 Gb/s", "latency": "10 ms"},
                },
            }
        )
        for task, loss in case["tasks"].items()
    ]
    own = scores(times_of(ran)).values()
    return max(own) if all(0.0 <= one <= 1.0 for one in own) else 2.0


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"scores": lambda _: by_hand(), "best": lambda _: best(), "learn": lambda _: learned()}
