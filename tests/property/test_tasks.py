"""Laws of jobs made of tasks and of operations."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.task_policies import TASK_POLICIES
from windtunnel.clusters.task_policies.base import Tasks
from windtunnel.clusters.task_policies.uwfq import Fluid
from windtunnel.clusters.tasks import TaskRules, run_tasks
from windtunnel_lab.papers.gradual_jobs_flowtime.experiment import flow_s, least_s

pytestmark = pytest.mark.property


def _jobs(rows: list[tuple[float, int, float, str]]) -> Jobs:
    submit, devices, work, users = zip(*rows, strict=True)
    return Jobs(
        submit_s=np.array(submit, float),
        devices=np.array(devices, np.int64),
        work_s=np.array(work, float),
        names=tuple(str(i) for i in range(len(rows))),
        users=tuple(users),
    )


@pytest.mark.parametrize("policy", TASK_POLICIES.list())
@pytest.mark.parametrize("seed", range(8))
def test_no_device_idles_while_a_task_waits(policy: str, seed: int) -> None:
    """All policies do the same work in the same busy periods, and no device has two tasks."""
    rng = np.random.default_rng(seed)
    rows = [(float(s), int(rng.integers(1, 9)), float(rng.integers(1, 30)), "abc"[int(rng.integers(3))])
            for s in np.sort(rng.integers(0, 60, 25))]  # fmt: skip
    jobs = _jobs(rows)
    for slice_s in (np.inf, 3.0):
        order = TASK_POLICIES.get(policy).order({}, 4)
        s = run_tasks(jobs, np.array([2, 2]), order, TaskRules(7.0, slice_s)).segments
        assert (s.end_s - s.start_s).sum() == pytest.approx((jobs.work_s * jobs.devices).sum())
        for moment in np.unique(s.start_s):
            busy = ((s.start_s <= moment) & (moment < s.end_s)).sum()
            waits = (jobs.submit_s[s.job[s.start_s > moment]] <= moment).any()
            assert busy <= 4
            assert busy == 4 or not waits or slice_s == 3.0  # a slice that ends begins again later


def test_users_share_by_hand() -> None:
    """Two devices, user a with three jobs and b with one: by jobs b gets a quarter, by users a half."""
    rows = [(0.0, 40, 1.0, "a")] * 3 + [(0.0, 40, 1.0, "b")]
    ends = {}
    for policy in ("fair", "user-fair", "uwfq"):
        order = TASK_POLICIES.get(policy).order({}, 2)
        ends[policy] = run_tasks(_jobs(rows), np.array([2]), order, TaskRules(np.inf, np.inf)).end_s
    assert ends["fair"][3] == pytest.approx(80, abs=2)
    assert ends["user-fair"][3] == pytest.approx(40, abs=2)
    assert ends["uwfq"][3] == pytest.approx(20, abs=1)  # it ends first in the fluid system, at 40, and runs alone here


def test_fluid_by_hand() -> None:
    """a has one device second after second until b comes at 4: then one of two each, a's two jobs share theirs."""
    fluid = Fluid(2)
    fluid.arrive(Tasks(0, "a", 0.0, 12.0), 0.0)
    assert fluid.ends[0] == pytest.approx(6)
    fluid.arrive(Tasks(1, "b", 4.0, 3.0), 4.0)  # four left of job 0
    assert (fluid.ends[1], fluid.ends[0]) == (pytest.approx(7), pytest.approx(7.5))
    fluid.arrive(Tasks(2, "a", 5.0, 1.0), 5.0)  # job 0 has three left, b two: b 1, each of a's jobs 1/2 a second
    assert fluid.ends[2] == pytest.approx(7) and fluid.ends[1] == pytest.approx(7)
    assert fluid.ends[0] == pytest.approx(8)


def test_a_short_operation_before_a_long_one_is_taken_for_a_short_job() -> None:
    """Job 0 takes 2 s and is known to; job 1 shows 1 s, and then 10 more: with all known it would have waited."""
    submit, chains = np.array([0.0, 0.0]), [(2.0,), (1.0, 10.0)]
    assert flow_s(submit, chains) == pytest.approx(3 + 13)
    assert least_s(submit, np.array([2.0, 11.0])) == pytest.approx(2 + 13)


@pytest.mark.parametrize("seed", range(20))
def test_one_operation_is_srpt_and_more_is_never_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, 30, 15))
    chains = [tuple(rng.exponential(1.0, 3) + 0.01) for _ in range(15)]
    work = np.array([sum(chain) for chain in chains])
    best = least_s(submit, work)
    assert flow_s(submit, [(float(one),) for one in work]) == pytest.approx(best)
    assert flow_s(submit, chains) >= best * (1 - 1e-9)
