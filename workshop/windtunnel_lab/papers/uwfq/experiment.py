"""Small jobs among large ones of other users: order by fluid ends, next to Spark's fair share of jobs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.task_policies import TASK_POLICIES
from windtunnel.clusters.task_policies.base import Tasks
from windtunnel.clusters.task_policies.uwfq import Fluid
from windtunnel.clusters.tasks import TaskRules, run_tasks
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=64)
def workload(rate: float, ratio: float, large_share: float, seed: int) -> Jobs:
    """Jobs of all users; the load sets how often they come."""
    rng = np.random.default_rng([seed, 5])
    count, cores, small = fixed("jobs"), fixed("cores"), fixed("small_core_s")
    often = large_share / ratio / (large_share / ratio + 1 - large_share)  # share of large jobs in number
    large = rng.random(count) < often
    size = small * np.where(large, ratio, 1.0)
    mean = small * (often * ratio + 1 - often)
    submit = np.cumsum(rng.exponential(mean / (rate * cores), count))
    own = fixed("users")
    who = np.where(large, rng.integers(0, own["large"], count), own["large"] + rng.integers(0, own["small"], count))
    return Jobs(
        submit_s=submit,
        devices=np.full(count, cores, np.int64),
        work_s=size / cores,
        names=tuple(str(i) for i in range(count)),
        users=tuple(f"u{i}" for i in who),
    )


def ends(jobs: Jobs, policy: str, part_s: float) -> Floats:
    """When each job ends."""
    cores = fixed("cores")
    order = TASK_POLICIES.get(policy).order({}, cores)
    return run_tasks(jobs, np.array([cores]), order, TaskRules(part_s, np.inf)).end_s


def fair_ends(jobs: Jobs) -> Floats:
    """When each job ends in the fluid system, whoever comes later."""
    fluid = Fluid(fixed("cores"))
    for i in range(len(jobs)):
        fluid.arrive(Tasks(i, jobs.users[i], jobs.submit_s[i], jobs.work_s[i] * jobs.devices[i]), jobs.submit_s[i])
    return np.array([fluid.ends[i] for i in range(len(jobs))])


def drawn(values: Values) -> list[Jobs]:
    """One workload a seed."""
    return [workload(values["load"], values["ratio"], values["large_share"], seed) for seed in fixed("seeds")]


def small_s(values: Values, policy: str, part_s: float) -> float:
    """Mean response of small jobs."""
    found = []
    for jobs in drawn(values):
        small = jobs.work_s <= jobs.work_s.min() * 1.001
        found.append(float((ends(jobs, policy, part_s) - jobs.submit_s)[small].mean()))
    return sum(found) / len(found)


def violation(values: Values, policy: str, part_s: float) -> float:
    """Mean of how much later jobs end than in the fluid system, over their time there."""
    found = []
    for jobs in drawn(values):
        fair = fair_ends(jobs)
        late = np.maximum(ends(jobs, policy, part_s) - fair, 0.0) / (fair - jobs.submit_s)
        found.append(float(late.mean()))
    return sum(found) / len(found)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    part = fixed("part_s")
    return {
        "small-jobs": lambda v: 1 - small_s(v, "uwfq", part) / small_s(v, "fair", np.inf),
        "violations": lambda v: violation(v, "fair", np.inf) / violation(v, "uwfq", part),
        "partitioning": lambda v: small_s(v, "uwfq", np.inf) / small_s(v, "uwfq", part),
    }
