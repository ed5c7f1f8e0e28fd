"""Loads that wave through the day on nodes, moved greedily or by what a move saves for its bytes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel_lab.models.clusters.migrations import Balance, generated, migration_bytes
from windtunnel_lab.models.clusters.migrations import run as balanced
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "intelligent-lb-cloud")
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=64)
def cases(policy: str, link_gb_per_s: float, price: float) -> list[Balance]:
    """A policy on every case."""
    found = []
    for seed in fixed("seeds"):
        loads, at = generated(seed, fixed("nodes"), fixed("loads_per_node"), fixed("steps"))
        found.append(balanced(loads, at, policy, link_bytes_per_s=link_gb_per_s * 1e9, price=price))
    return found


def mean(values: Values, policy: str, field: str) -> float:
    """Mean of a figure over the cases."""
    return float(np.mean([getattr(b, field) for b in cases(policy, values["link_gb_per_s"], values["price"])]))


def total(values: Values, policy: str) -> float:
    """Overload and traffic in one: processors above capacity over all steps, and bytes at their price."""
    excess = mean(values, policy, "excess") * float(fixed("steps"))
    return excess + float(values["price"]) * mean(values, policy, "moved_bytes") / 64e9


def dirty() -> float:
    """Bytes of moving a load that writes at nine tenths of the link over those of one that writes nothing."""
    memory, rate = np.full(2, 8e9), np.array([0.0, 0.9e9])
    found = migration_bytes(memory, rate, 1e9)
    return float(found[1] / found[0])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "overload/greedy": lambda v: mean(v, "search", "overload_share") / mean(v, "greedy", "overload_share"),
        "traffic/greedy": lambda v: mean(v, "search", "moved_bytes") / mean(v, "greedy", "moved_bytes"),
        "cost/greedy": lambda v: total(v, "search") / total(v, "greedy"),
        "cost/stay": lambda v: total(v, "search") / total(v, "stay"),
        "dirty": lambda _: dirty(),
    }
