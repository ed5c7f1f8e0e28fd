"""Average active parameters of a router over experts of unlike sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "composition-of-experts")
fixed = EXPERIMENT.fixed


def active(shares: Any) -> float:
    """Average active parameters, billions, of shares of prompts by expert."""
    return float(np.dot(shares, fixed("parameters"))) / 1e9


def at_hand() -> Any:
    """Published shares; equal ones while they are not at hand."""
    sizes = fixed("parameters")
    return fixed("shares") or np.full(len(sizes), 1.0 / len(sizes))


def least_large(wanted: float) -> float:
    """Least share of prompts, %, of the two largest experts for an average, the others getting their largest."""
    sizes = np.array(fixed("parameters")) / 1e9
    others, most = sizes[:-2].max(), sizes[-1]
    return float(100.0 * max(0.0, (wanted - others) / (most - others)))


def drawn() -> float:
    """Mean parameters of prompts that a router sends, over the sum of shares times parameters."""
    case, sizes = fixed("drawn"), np.array(fixed("parameters"))
    rng = np.random.default_rng(case["seed"])
    shares = rng.dirichlet(np.ones(len(sizes)))
    sent = rng.choice(sizes, case["prompts"], p=shares)
    return float(np.mean(sent)) / 1e9 / active(shares)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "arena": lambda _: active(at_hand()),
        "bench": lambda _: active(at_hand()),
        "feasible": lambda _: least_large(54.0),
        "router": lambda _: drawn(),
    }
