"""Samples side by side and one judge, against one sample."""

from __future__ import annotations

from windtunnel.programs.result import Point
from windtunnel_lab.reproduce.claims import Measure, reasoned
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "multilingual-sampling")
fixed = EXPERIMENT.fixed


def run_of(samples: int, values: Values) -> Point:
    """All problems on one device."""
    return reasoned(
        {
            "model": fixed("stand_in"),
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 1},
            "programs": {
                "strategy": {"multilingual_sampling": {"n": samples}},
                "problems": fixed("problems"),
                "rate_per_s": values["rate_per_s"],
                "input_tokens": fixed("prompt"),
                "output_tokens": fixed("answer"),
                "verifier": {"output_tokens": fixed("judge_tokens")},
            },
            "population": {"pass_1": 0.5, "concentration": 0.9},
        }
    ).last


def latency(values: Values) -> float:
    """Ratio of mean seconds of a problem."""
    return run_of(fixed("samples"), values).latency_s["mean"] / run_of(1, values).latency_s["mean"]


def judge_reads(values: Values) -> float:
    """Prompt tokens of the judge over what the samples generated."""
    own = run_of(fixed("samples"), values)
    judge = own.prompt_tokens - fixed("samples") * fixed("prompt")
    return float(judge / (own.tokens - fixed("judge_tokens")))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"latency": latency, "judge_reads": judge_reads}
