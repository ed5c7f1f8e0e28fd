"""Laws and orders of the schedulers that the survey names, on random jobs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.clusters.event_loop.records import EASY, SKIP, STATIC, STRICT, JobTable, Rules
from windtunnel.clusters.event_loop.run import run_queue
from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.outages import draw_outages
from windtunnel.clusters.policies import POLICIES
from windtunnel.clusters.task_policies import TASK_POLICIES
from windtunnel.clusters.tasks import TaskRules, run_tasks
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "workload-schedulers-survey")
fixed = EXPERIMENT.fixed
_EACH = 8


def room() -> Any:
    """Devices of each node."""
    return np.full(fixed("nodes"), _EACH, np.int64)


@lru_cache(maxsize=32)
def workload(rate: float, seed: int, *, gangs: bool) -> Jobs:
    """Heavy-tailed jobs of one device on two, or of one to 32 at once on all."""
    rng = np.random.default_rng([seed, 23])
    n = fixed("jobs")
    work = rng.lognormal(5.0, 1.8, n) + 1.0
    devices = rng.choice([1, 1, 2, 4, 8, 16, 32], n) if gangs else np.ones(n, np.int64)
    between = float((work * devices).mean()) / (rate * (room().sum() if gangs else 2))
    return Jobs(
        submit_s=np.cumsum(rng.exponential(between, n)), devices=devices, work_s=work, names=("",) * n, users=("",) * n
    )


def queued(jobs: Jobs, blocking: int, nodes: Any) -> Floats:
    """When each job ends in the order of arrival."""
    none = draw_outages(None, nodes, 0.0, 0.0, 0)
    table = JobTable(jobs.submit_s, jobs.devices, jobs.work_s, jobs.work_s, jobs.submit_s, np.zeros(len(jobs)))
    rules = Rules(STATIC, False, blocking, 0, False, np.zeros(0), 1.0, 1e9, len(jobs))
    return run_queue(table, rules, none, nodes).end_s


def backfill(values: Values) -> float:
    """Waiting of EASY over strict order."""
    waits = {EASY: 0.0, STRICT: 0.0}
    for seed in fixed("seeds"):
        jobs = workload(values["load"], seed, gangs=True)
        for blocking in waits:
            waits[blocking] += float((queued(jobs, blocking, room()) - jobs.submit_s - jobs.work_s).mean())
    return waits[EASY] / waits[STRICT]


def turns(values: Values) -> float:
    """Response over length, round robin over order of arrival."""
    found = {"turns": 0.0, "order": 0.0}
    for seed in fixed("seeds"):
        jobs = workload(values["load"], seed, gangs=False)
        order = TASK_POLICIES.get("round-robin").order({}, 2)
        ends = run_tasks(jobs, np.array([2]), order, TaskRules(np.inf, fixed("slice_s"))).end_s
        found["turns"] += float(((ends - jobs.submit_s) / jobs.work_s).mean())
        found["order"] += float(((queued(jobs, SKIP, np.array([2])) - jobs.submit_s) / jobs.work_s).mean())
    return found["turns"] / found["order"]


def evenness(_: Values) -> float:
    """Largest difference of device time of three endless jobs on two devices, in slices, at starts of slices."""
    n, length, cut = 3, 6000.0, float(fixed("slice_s"))
    jobs = Jobs(
        submit_s=np.zeros(n), devices=np.ones(n, np.int64), work_s=np.full(n, length), names=("",) * n, users=("",) * n
    )
    run = run_tasks(jobs, np.array([2]), TASK_POLICIES.get("cfs").order({}, 2), TaskRules(np.inf, cut))
    s = run.segments
    moments = np.unique(s.start_s[s.start_s < run.end_s.min()])
    had = np.array([[np.minimum(s.end_s, t)[s.job == j].sum() - np.minimum(s.start_s, t)[s.job == j].sum()
                     for j in range(n)] for t in moments])  # fmt: skip
    return float((had.max(axis=1) - had.min(axis=1)).max()) / cut


def envious(_: Values) -> float:
    """Users who could run two jobs more with another's part of the room than with their own."""
    count = 0
    for seed in fixed("seeds"):
        rng = np.random.default_rng([seed, 29])
        users, each = 4, 64
        who = rng.permutation(np.repeat(np.arange(users), each))
        devices, cpus = rng.integers(1, 5, users)[who], rng.integers(1, 33, users).astype(float)[who]
        n = len(who)
        work, start = np.full(n, 1e6), np.zeros(n)
        names = tuple(f"u{i}" for i in who)
        jobs = Jobs(submit_s=start, devices=devices, work_s=work, names=names, users=names, cpus=cpus)
        make = POLICIES.get("drf").chooser
        assert make is not None
        table = JobTable(start, devices, work, work, start, np.zeros(n))
        rules = Rules(STATIC, False, SKIP, 1, False, np.zeros(0), 1.0, 1e9, 1)
        none = draw_outages(None, room(), 0.0, 0.0, 0)
        first = run_queue(table, rules, none, room(), make(jobs, int(room().sum()))).first_start_s == 0
        demand = np.array([[devices[who == u][0], cpus[who == u][0]] for u in range(users)])
        ran = np.array([(first & (who == u)).sum() for u in range(users)])
        held = demand * ran[:, None]
        for user in range(users):
            best = max(float((held[other] / demand[user]).min()) for other in range(users))
            count += best >= ran[user] + 2
    return float(count)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "backfill-waits": backfill,
        "turns-help-short-jobs": turns,
        "cfs-is-even": evenness,
        "drf-envy": envious,
    }
