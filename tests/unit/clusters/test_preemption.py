"""Who gives way to whom: lower priorities, the youngest first, after a guaranteed time; delays of placement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from windtunnel import api
from windtunnel.clusters.event_loop.records import (
    CAPACITY,
    CONSOLIDATED,
    NO_CAUSES,
    PREEMPTED,
    RANKED,
    SKIP,
    JobTable,
    Outages,
    Rules,
)
from windtunnel.clusters.event_loop.run import Course, run_queue
from windtunnel.clusters.job_mix import generate_mix
from windtunnel.clusters.placements import PLACEMENTS
from windtunnel.clusters.result import ClusterResult
from windtunnel.errors import BadInput
from windtunnel.specs.jobs import GenerateSpec

CLUSTER = {"device": "v100-sxm-32gb", "nodes": 2, "devices_per_node": 4}


def _run(tmp_path: Path, rows: list[str], **jobs: object) -> ClusterResult:
    (tmp_path / "trace.csv").write_text("\n".join(["submit_s,num_gpus,duration_s,priority", *rows]) + "\n")
    result = api.simulate_cluster({"cluster": CLUSTER, "jobs": {"trace": str(tmp_path / "trace.csv"), **jobs}})
    assert isinstance(result, ClusterResult)
    return result


def _preempted(result: ClusterResult) -> list[int]:
    return result.segments.job[result.segments.why == PREEMPTED].tolist()


def test_the_youngest_job_of_the_lowest_priority_gives_way(tmp_path: Path) -> None:
    rows = ["0,4,100,1", "1,2,100,0", "2,2,100,0", "10,2,50,2"]
    result = _run(tmp_path, rows, policy="priority")
    assert _preempted(result) == [2] and result.end_s.tolist() == [100.0, 101.0, 152.0, 60.0]


def test_equal_priorities_do_not_preempt_each_other(tmp_path: Path) -> None:
    """Job 0 is the earliest, and waits nevertheless when it was preempted: 1 and 2 go on."""
    rows = ["0,4,100,0", "0,4,10,0", "5,4,20,1", "12,4,100,0"]
    result = _run(tmp_path, rows, policy="priority")
    assert _preempted(result) == [1]  # the later number of those that started together
    assert result.end_s.tolist() == [100.0, 30.0, 25.0, 130.0]


def _large_job_fails() -> Course:
    """Five nodes of four: a job of 12 on nodes 0 to 2, an older small one on 3, a younger one on 4. Node 0 fails."""
    table = JobTable(
        submit_s=np.array([0.0, 1.0, 2.0]),
        devices=np.array([12, 4, 4]),
        work_s=np.full(3, 100.0),
        estimate_s=np.full(3, 100.0),
        key=np.array([-1e10, 0.0, 0.0]),
        overhead_s=np.zeros(3),
        save_s=np.full(3, 1e-9),
    )
    rules = Rules(RANKED, True, SKIP, CONSOLIDATED, False, np.zeros(0), 1.0, 1e-9, 1)
    fails = Outages(np.array([50.0, 500.0]), np.zeros(2, np.int64), np.array([0, 4]), np.full(2, CAPACITY))
    return run_queue(table, rules, fails, np.full(5, 4), twin=True, causes=NO_CAUSES)


def test_a_job_that_starts_again_preempts_only_for_what_is_missing() -> None:
    course = _large_job_fails()
    s = course.segments
    assert s.job[s.why == PREEMPTED].tolist() == [2]  # one node is missing, and the youngest job has it
    assert s.node[s.job == 0].tolist() == [0, 1]  # its own nodes 1 and 2, and node 4
    assert course.end_s.tolist() == pytest.approx([100.0, 101.0, 152.0])


def test_nobody_gives_way_in_the_guaranteed_time(tmp_path: Path) -> None:
    rows = ["0,8,100,0", "10,8,50,1"]
    result = _run(tmp_path, rows, policy="priority", guaranteed_run=30)
    assert result.end_s.tolist() == [150.0, 80.0]
    short = _run(tmp_path, ["0,8,100,0", "10,8,50,0"], policy="srtf", guaranteed_run=45)
    assert short.end_s.tolist() == [150.0, 95.0]  # after 45 s 55 are left, more than 50


def test_a_guarantee_needs_a_policy_that_keeps_it(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"jobs.guaranteed_run = 30.*needs a policy of queues that preempts"):
        _run(tmp_path, ["0,8,100,0"], guaranteed_run=30)
    with pytest.raises(BadInput, match="needs `overhead_at: starts`"):
        _run(tmp_path, ["0,8,100,0"], guaranteed_run=30, policy="srtf", overhead_at="decisions")


APART = ["0,3,100,0", "0,3,100,0", "1,2,20,0", "2,1,5,0"]


@pytest.mark.parametrize(
    ("placement", "ends"),
    [
        ("consolidated", [100.0, 100.0, 120.0, 7.0]),  # job 2 waits for two devices of one node
        ("best_fit", [100.0, 100.0, 41.0, 46.0]),  # it takes one of each at once, at half its speed
        ({"delay": {"wait_s": 10.0}}, [100.0, 100.0, 51.0, 7.0]),  # ten seconds later; job 3 came and went
        ({"delay": {"wait_s": 200.0}}, [100.0, 100.0, 120.0, 7.0]),
    ],
)
def test_delay_scheduling_by_hand(tmp_path: Path, placement: object, ends: list[float]) -> None:
    result = _run(tmp_path, APART, placement=placement, policy="sjf", spread_speed=0.5)
    assert result.end_s.tolist() == ends


def test_backfilling_reserves_when_a_placement_relaxes(tmp_path: Path) -> None:
    """Job 2 is at the head and takes two nodes at 11 s; job 3 ends before that at half its speed, job 4 not."""
    rows = ["0,3,100,0", "0,3,100,0", "1,2,20,0", "2,1,4,0", "3,1,50,0"]
    result = _run(tmp_path, rows, placement={"delay": {"wait_s": 10.0}}, policy="backfill", spread_speed=0.5)
    assert result.first_start_s.tolist()[:4] == [0.0, 0.0, 11.0, 2.0]
    assert result.first_start_s[4] >= 51.0


def test_placements_are_checked(tmp_path: Path) -> None:
    assert PLACEMENTS.list() == ("best_fit", "consolidated", "delay", "spread")
    with pytest.raises(BadInput, match=r"jobs.placement = delya.*did you mean 'delay'"):
        _run(tmp_path, APART, placement="delya")
    with pytest.raises(BadInput, match=r"jobs.placement.delay.wait: unknown knob|delay.wait = 5: unknown knob"):
        _run(tmp_path, APART, placement={"delay": {"wait": 5}})
    with pytest.raises(BadInput, match=r"jobs.placement = .*must be one id"):
        _run(tmp_path, APART, placement={"delay": {}, "spread": {}})


def test_more_jobs_follow_those_of_a_smaller_count() -> None:
    classes = [{"share": 3, "duration": 600, "cv": 1.0}, {"share": 1, "devices": 4, "duration": 3600, "cv": 0.5}]
    few, many = (
        generate_mix(GenerateSpec.model_validate({"rate_per_hour": 5, "count": n, "classes": classes}), 3)
        for n in (50, 400)
    )
    for name in ("submit_s", "devices", "work_s"):
        assert getattr(many, name)[:50].tolist() == getattr(few, name).tolist()
    assert many.kinds[:50] == few.kinds and len(set(many.kinds)) == 2
