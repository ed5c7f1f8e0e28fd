"""Random jobs of operations on one machine: shortest operation first against the optimum that knows all."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.clusters.event_loop.records import REMAINING, SKIP, JobTable, Rules
from windtunnel.clusters.event_loop.run import run_queue
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.outages import draw_outages
from windtunnel.clusters.sharing import run_sharing
from windtunnel.clusters.sharing_policies import SHARING_POLICIES
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "gradual-jobs-flowtime")
fixed = EXPERIMENT.fixed


def least_s(submit: Floats, work: Floats) -> float:
    """Total flow time of SRPT, which knows all sizes: the least."""
    ones = np.ones(len(work), np.int64)
    table = JobTable(submit, ones, work, work, submit, np.zeros(len(work)))
    rules = Rules(REMAINING, True, SKIP, 0, False, np.zeros(0), 1.0, 1e9, 1)
    none = draw_outages(None, ones[:1], 0.0, 0.0, 0)
    return float((run_queue(table, rules, none, ones[:1]).end_s - submit).sum())


def flow_s(submit: Floats, chains: list[tuple[float, ...]]) -> float:
    """Total flow time of shortest operation first."""
    n, work = len(chains), np.array([sum(chain) for chain in chains])
    ones = np.ones(n, np.int64)
    jobs = Jobs(submit_s=submit, devices=ones, work_s=work, names=("",) * n, operations=tuple(chains))
    table = JobTable(submit, ones, work, work, submit, np.zeros(n))
    decide = SHARING_POLICIES.get("operation-srpt").prepare(jobs, {}, 0)
    return float((run_sharing(table, np.array([1]), decide, tick_s=0.0, restarts=False).end_s - submit).sum())


def _chain(rng: np.random.Generator, operations: int, hard: bool) -> tuple[float, ...]:
    if not hard:
        return tuple(rng.exponential(1.0, operations) + 1e-3)
    sizes = 10 ** rng.uniform(-1.5, 1.5, operations)
    return tuple(np.sort(sizes)) if rng.random() < 0.7 else tuple(sizes)


def ratios(rate: float, operations: int, *, tests: bool = False) -> tuple[float, ...]:
    """Of each instance; with tests a job is one of equal length and then its work."""
    return _ratios(rate, operations, tests)


@lru_cache(maxsize=64)
def _ratios(rate: float, operations: int, tests: bool) -> tuple[float, ...]:
    found, n = [], fixed("jobs")
    for seed in range(fixed("instances")):
        rng = np.random.default_rng([seed, operations, int(tests)])
        chains = [_chain(rng, operations, seed % 2 == 1) for _ in range(n)]
        if tests:
            length = float(10 ** rng.uniform(-1, 1))
            chains = [(length, sum(chain)) for chain in chains]
        work = np.array([sum(chain) for chain in chains])
        submit = np.sort(rng.uniform(0, work.sum() / rate, n))
        found.append(flow_s(submit, chains) / least_s(submit, work))
    return tuple(found)


def squared(values: Values) -> float:
    """Largest ratio over m²."""
    return max(max(ratios(values["load"], m)) / m**2 for m in range(2, fixed("most_operations") + 1))


def more_is_worse(values: Values) -> float:
    """Mean ratio with most operations."""
    return float(np.mean(ratios(values["load"], fixed("most_operations"))))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "uniform-tests": lambda v: max(ratios(v["load"], 1, tests=True)),
        "squared": squared,
        "one-operation": lambda v: max(ratios(v["load"], 1)),
        "more-is-worse": more_is_worse,
    }
