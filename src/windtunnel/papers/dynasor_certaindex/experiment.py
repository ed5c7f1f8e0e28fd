"""Probes that end chains of thought, against chains that run to their ends."""

from __future__ import annotations

from typing import Any

from windtunnel.programs.result import Point
from windtunnel.programs.strategies.early_stop import PROBE_ANSWER_TOKENS
from windtunnel.reproduce import ClaimResult
from windtunnel.reproduce.claims import Measure, reasoned, results
from windtunnel.reproduce.settings import Values, load

TITLE = "Dynasor and Certaindex (Fu et al. 2024)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel.papers.dynasor_certaindex")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


def run_of(strategy: dict[str, Any]) -> Point:
    """All problems on one device."""
    length = {"distribution": "lognormal", "mean": fixed("chain_tokens"), "cv": fixed("chain_cv"), "max": 16384}
    return reasoned(
        {
            "model": fixed("model"),
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 1},
            "programs": {
                "strategy": strategy,
                "problems": fixed("problems"),
                "offline": True,
                "output_tokens": length,
            },
            "population": {"pass_1": 0.8, "concentration": 0.9},
        }
    ).last


def full() -> Point:
    """Chains to their ends."""
    return run_of({"best_of_n": {"n": 1}})


def probed(values: Values) -> Point:
    """Chains that probes end."""
    knobs = {"n": 1, "rule": "probe", "interval": fixed("interval"), "settles": values["settles"]}
    return run_of({"early_stop": knobs})


def saved(values: Values) -> float:
    """Share of the tokens of chains that is saved; those of probes, one behind each call of a chain, are left out."""
    own = probed(values)
    return 1.0 - (own.tokens - PROBE_ANSWER_TOKENS * own.calls / 2) / full().tokens


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "tokens": saved,
        "rate": lambda v: probed(v).problems_per_s / full().problems_per_s,
    }


def run() -> list[ClaimResult]:
    """All claims of the paper."""
    return results(setting(), "dynasor-certaindex", measures())
