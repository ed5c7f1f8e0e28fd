"""Chains that end at low confidence, on one A100."""

from __future__ import annotations

from typing import Any

from windtunnel.programs.result import Point
from windtunnel.reproduce import ClaimResult
from windtunnel.reproduce.claims import Measure, reasoned, results
from windtunnel.reproduce.settings import Values, load

TITLE = "DeepConf: deep think with confidence (Fu et al. 2025)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel.papers.deepconf")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


def run_of(strategy: dict[str, Any], values: Values) -> Point:
    """One problem after another on one device."""
    length = {
        "distribution": "lognormal",
        "mean": fixed("chain_tokens"),
        "cv": fixed("chain_cv"),
        "max": fixed("most_tokens"),
    }
    return reasoned(
        {
            "model": fixed("model"),
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 1},
            "programs": {
                "strategy": strategy,
                "problems": fixed("problems"),
                "concurrency": 1,
                "input_tokens": fixed("prompt"),
                "output_tokens": length,
                "verifier": {"separation": values["separation"]},
            },
            "population": {"pass_1": 0.7, "concentration": 0.9},
        }
    ).last


def full(values: Values) -> Point:
    """All chains to their ends."""
    return run_of({"best_of_n": {"n": fixed("chains"), "selector": "majority"}}, values)


def stopped(values: Values) -> Point:
    """Chains that end at low confidence."""
    knobs = {
        "n": fixed("chains"),
        "rule": "confidence",
        "interval": fixed("group"),
        "warmup": fixed("warmup"),
        "keep": values["keep"],
        "correlation": values["correlation"],
    }
    return run_of({"early_stop": knobs}, values)


def tokens(values: Values) -> float:
    """Ratio of tokens."""
    return stopped(values).tokens / full(values).tokens


def seconds(values: Values) -> float:
    """Ratio of seconds."""
    return stopped(values).latency_s["mean"] / full(values).latency_s["mean"]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"tokens": tokens, "faster_than_tokens": lambda v: seconds(v) / tokens(v)}


def run() -> list[ClaimResult]:
    """All claims of the paper."""
    return results(setting(), "deepconf", measures())
