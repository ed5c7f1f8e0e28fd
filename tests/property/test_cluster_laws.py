"""Laws of the loop over jobs: the kernel is its twin, no job is lost, no device idles without reason, Little's law."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel.clusters.event_loop.power_records import NO_FEEDS, Feeds
from windtunnel.clusters.event_loop.records import (
    BEST_FIT,
    BREAKS,
    CAPACITY,
    CLAIM,
    CRASHES,
    EASY,
    ENDED_WELL,
    FAILED,
    NO_CAUSES,
    PAUSE,
    RANKED,
    RELEASE,
    SKIP,
    SPREAD,
    STATIC,
    STRICT,
    WITHDRAW,
    Causes,
    JobTable,
    Outages,
    Rules,
)
from windtunnel.clusters.event_loop.run import Course, run_queue
from windtunnel.kernel_cache import always_compiled

pytestmark = pytest.mark.property
NONE = Outages(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))


def _drawn(seed: int) -> tuple[JobTable, Rules, Outages, np.ndarray]:
    """A room, jobs that it can hold, and rules, all at random."""
    rng = np.random.default_rng(seed)
    n, nodes = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    capacity = rng.integers(1, 9, nodes) if seed % 2 else np.full(nodes, 8)
    placement = int(rng.integers(3))
    most = capacity.sum() if placement else (capacity == capacity.max()).sum() * capacity.max()
    submit = np.sort(rng.integers(0, 200, n)).astype(float)
    devices = np.minimum(rng.choice([1, 1, 1, 2, 4, 8, 12, 16], n), most).astype(np.int64)
    work = np.round(rng.exponential(100, n), 2) + 1
    estimate = work * rng.choice([1.0, 1.0, 2.0], n)
    jobs = JobTable(
        submit, devices, work, estimate, submit if rng.random() < 0.5 else estimate, rng.choice([0.0, 7.0], n)
    )
    preemptive = bool(rng.integers(2))
    rules = Rules(
        kind=int(rng.integers(4)),
        preemptive=preemptive,
        blocking=int(rng.integers(2 if preemptive else 3)),
        placement=placement,
        repack=preemptive and bool(rng.integers(2)),
        limits=np.array([50.0, 200.0, 400.0]),
        spread_speed=float(rng.choice([1.0, 0.7])),
        save_s=50.0,
        depth=int(rng.choice([3, 500])),
        tick_s=float(rng.choice([0.0, 0.0, 30.0, 7.3])),
    )
    outages = NONE
    if seed % 3 == 0:
        node = int(rng.integers(nodes))
        times = np.sort(rng.uniform(0, 400, 2))
        outages = Outages(times, np.array([node, node]), np.array([0, capacity[node]]))
    return jobs, rules, outages, capacity.astype(np.int64)


def _befallen(seed: int) -> tuple[JobTable, Rules, Outages, np.ndarray, Causes]:
    """The same with failures of every kind, nodes that are claimed, and jobs that are put aside."""
    jobs, rules, _, capacity = _drawn(seed)
    rng = np.random.default_rng([seed, 1])
    causes = Causes(
        known_s=np.array([0.0, 5.0, 30.0, 20.0]),
        slow=np.array([1.0, 1.0, 3.0, 1.0]),
        drains=np.array([0, 0, 0, 1]),
        in_place=np.array([0, 1, 0, 0]),
        share=np.array([0.4, 0.6, 0.8, 1.0]),
        per_job_s=float(rng.choice([0.0, 0.01])),
        seed=seed,
    )
    rows = []
    for _ in range(int(rng.integers(1, 6))):
        at, node, cause = float(rng.integers(0, 400)), int(rng.integers(len(capacity))), int(rng.integers(4))
        rows.append((at, node, int(rng.integers(capacity[node])), CRASHES, cause))
        at = float(rng.integers(0, 400))
        rows.append((at, node, int(rng.integers(capacity[node])), CLAIM, -1))
        rows.append((at + 50, node, int(capacity[node]), CLAIM, -1))
    node = int(rng.integers(len(capacity)))
    rows += [(40.0, node, 0, BREAKS, int(rng.choice([0, 2])))]
    rows += [(60.0, node, 0, CAPACITY, int(rng.integers(4))), (200.0, node, int(capacity[node]), CAPACITY, -1)]
    rows += [(900.0, each, int(size), CAPACITY, -1) for each, size in enumerate(capacity)]  # whatever was claimed
    held = np.zeros(len(jobs.submit_s), np.int64)
    for job in rng.integers(0, len(held), 3).tolist():
        held[job] = 1
        begin = float(jobs.submit_s[job]) + int(rng.integers(0, 40))
        aside = int(rng.choice([PAUSE, WITHDRAW]))
        rows += [(begin, job, 0, RELEASE, -1), (begin + 30, job, 0, aside, -1), (begin + 80, job, 0, RELEASE, -1)]
    rows.sort(key=lambda row: row[0])
    time_s, where, size, kind, cause_of = (np.array(column) for column in zip(*rows, strict=True))
    jobs = jobs._replace(
        held=held,
        spread_speed=rng.choice([0.5, 1.0], len(held)),
        save_s=rng.choice([10.0, 50.0], len(held)),
    )
    rules = rules._replace(preempted_save=bool(rng.integers(2)))
    return jobs, rules, Outages(time_s, where, size, kind, cause_of), capacity, causes


def _ranked(seed: int) -> tuple[JobTable, Rules, Outages, np.ndarray, Causes, Feeds]:
    """The same with ranks, guaranteed first seconds, placements that relax, and rows of nodes under tight feeds."""
    jobs, rules, outages, capacity, causes = _befallen(seed)
    rng = np.random.default_rng([seed, 2])
    n, rows = len(jobs.submit_s), int(rng.integers(1, 1 + len(capacity)))
    if seed % 2:
        rules = rules._replace(kind=RANKED, preemptive=True, blocking=SKIP)
        jobs = jobs._replace(key=-1e10 * rng.integers(0, 3, n))
    rules = rules._replace(
        guaranteed_s=0.0 if rules.repack else float(rng.choice([0.0, 25.0])),
        relax_s=float(rng.choice([1e300, 0.0, 20.0])),
        relaxed=int(rng.choice([BEST_FIT, SPREAD])),
    )
    row_of = rng.integers(0, rows, len(capacity))
    busy_w = 100.0 * np.array([capacity[row_of == row].sum() for row in range(rows)])
    speed = np.tile([1.0, 0.9, 0.75, 0.3], (n, 1))
    peak_w = np.rint(90.0 * speed)  # whole watts: sums do not depend on their order
    feeds = NO_FEEDS._replace(
        row_of=row_of,
        limit_w=np.maximum(busy_w * rng.choice([0.6, 0.9, 1.2], rows), 1.0),
        idle_w=busy_w / 10,
        mean_w=peak_w / 2,
        peak_w=peak_w,
        speed=speed,
        high=rng.integers(0, 2, n),
        fleet=np.where(rng.random(n) < 0.2, 0, -1),
        fleet_w=np.rint(rng.integers(10, 90, (1, 3, 1)) * speed[None, :1]),
        begin_s=float(jobs.submit_s[0]),
        delay_s=4.0,
        caps=bool(rng.integers(4)),
    )
    return jobs, rules, outages, capacity, causes, feeds


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_feeds_ranks_and_delays_in_the_kernel_are_those_of_its_twin(first: int) -> None:
    capped = 0
    for seed in range(first, first + 50):
        jobs, rules, outages, capacity, causes, feeds = _ranked(seed)
        twin = run_queue(jobs, rules, outages, capacity, twin=True, causes=causes, feeds=feeds)
        with always_compiled():
            kernel = run_queue(jobs, rules, outages, capacity, causes=causes, feeds=feeds)
        assert _same(twin, kernel), seed
        assert twin.power is not None and kernel.power is not None
        assert all(np.array_equal(x, y) for x, y in zip(twin.power, kernel.power, strict=True)), seed
        assert np.array_equal(twin.held_back_s, kernel.held_back_s) and np.array_equal(twin.brakes, kernel.brakes)
        assert np.isfinite(twin.end_s).all(), seed
        capped += bool((twin.held_back_s > 0).any())
    assert capped > 10


def _same(a: Course, b: Course) -> bool:
    names = ("first_start_s", "end_s", "run_s", "starts", "kills")
    columns = [(getattr(a, name), getattr(b, name)) for name in names]
    columns += list(zip(a.segments, b.segments, strict=True))
    return all(np.array_equal(x, y) for x, y in columns)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_the_kernel_is_its_twin_and_loses_no_job(first: int) -> None:
    for seed in range(first, first + 50):
        drawn = _drawn(seed)
        twin = run_queue(*drawn, twin=True)
        with always_compiled():
            kernel = run_queue(*drawn)
        assert _same(twin, kernel), seed
        assert np.isfinite(twin.end_s).all(), seed
        jobs, segments = drawn[0], twin.segments
        assert (twin.end_s >= jobs.submit_s + jobs.work_s - 1e-9).all()
        ran = np.bincount(segments.job, segments.end_s - segments.start_s, len(jobs.work_s))
        assert ran == pytest.approx(twin.run_s)
        assert (twin.run_s >= jobs.work_s * (1 - 1e-12)).all()


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_failures_in_the_kernel_are_those_of_its_twin(first: int) -> None:
    for seed in range(first, first + 50):
        jobs, rules, outages, capacity, causes = _befallen(seed)
        twin = run_queue(jobs, rules, outages, capacity, twin=True, causes=causes)
        with always_compiled():
            kernel = run_queue(jobs, rules, outages, capacity, causes=causes)
        assert _same(twin, kernel), seed
        ended, s = np.isfinite(twin.end_s), twin.segments
        assert ended.all(), seed
        assert ((s.why == ENDED_WELL).sum(), (s.why == FAILED).sum()) == (len(ended), twin.kills.sum())
        if rules.preemptive and rules.repack:
            continue  # its segments go on through moves
        ran = np.bincount(s.job, s.end_s - s.start_s, len(ended))
        lost = np.bincount(s.job, s.lost_s, len(ended))
        overhead = np.bincount(s.job, np.minimum(jobs.overhead_s[s.job], s.end_s - s.start_s), len(ended))
        assert (ran >= (jobs.work_s + lost + overhead) * (1 - 1e-12) - 1e-6).all(), seed


def _one(**own: object) -> JobTable:
    plain = JobTable(np.zeros(1), np.array([4]), np.array([100.0]), np.array([100.0]), np.zeros(1), np.zeros(1))
    return plain._replace(save_s=np.array([30.0]), **own)  # type: ignore[arg-type]


def _cause(**own: object) -> Causes:
    return NO_CAUSES._replace(
        known_s=np.array([10.0]), slow=np.ones(1), drains=np.zeros(1, np.int64), in_place=np.zeros(1, np.int64)
    )._replace(**own)  # type: ignore[arg-type]


def test_a_failure_by_hand() -> None:
    """At 50 a job of 100 s that saves every 30 s fails; it is known at 60, 20 s of work are lost: it ends at 130."""
    crash = Outages(np.array([50.0]), np.array([0]), np.array([3]), np.array([CRASHES]), np.array([0]))
    course = run_queue(_one(), _rules(), crash, np.array([8]), twin=True, causes=_cause())
    assert (course.end_s[0], course.segments.lost_s.tolist(), course.kills[0]) == (130.0, [20.0, 0.0], 1)
    idle = crash._replace(capacity=np.array([5]))
    assert run_queue(_one(), _rules(), idle, np.array([8]), twin=True, causes=_cause()).end_s[0] == 100.0
    again = run_queue(_one(), _rules(), crash, np.array([8]), twin=True, causes=_cause(in_place=np.ones(1, np.int64)))
    assert (again.end_s[0], again.kills[0], again.starts[0]) == (130.0, 0, 1)
    slow = run_queue(_one(), _rules(), crash, np.array([8]), twin=True, causes=_cause(slow=np.array([2.0])))
    assert slow.end_s[0] == 105.0  # 5 s of work in 10 s, then saved and started anew
    drained = run_queue(_one(), _rules(), crash, np.array([8]), twin=True, causes=_cause(drains=np.ones(1, np.int64)))
    assert (drained.end_s[0], drained.starts[0]) == (100.0, 2)


def test_a_node_that_fails_holds_its_jobs_until_it_is_known() -> None:
    """A node of two fails at 50, is known at 60 and returns at 500: the job goes on from 30 s on the other at 60."""
    rows = [(50.0, 0, 0, BREAKS, 0), (60.0, 0, 0, CAPACITY, 0), (500.0, 0, 4, CAPACITY, -1)]
    breaks = Outages(*(np.array(column) for column in zip(*rows, strict=True)))
    course = run_queue(_one(), _rules(), breaks, np.array([4, 4]), twin=True, causes=_cause())
    assert course.end_s[0] == 130.0
    alone = run_queue(_one(), _rules(), breaks, np.array([4]), twin=True, causes=_cause())
    assert alone.end_s[0] == 570.0


@pytest.mark.parametrize("seed", range(60))
def test_nodes_never_hold_more_than_they_have(seed: int) -> None:
    jobs, rules, outages, capacity = _drawn(seed)
    course = run_queue(jobs, rules, outages, capacity, twin=True)
    s = course.segments
    times = np.concatenate([s.start_s, s.end_s])
    change = np.concatenate([jobs.devices[s.job], -jobs.devices[s.job]])
    order = np.lexsort((change, times))
    assert np.cumsum(change[order]).max() <= capacity.sum()


def _rules(**own: object) -> Rules:
    plain = Rules(STATIC, False, SKIP, 0, False, np.zeros(0), 1.0, 1e9, 500)
    return plain._replace(**own)  # type: ignore[arg-type]


def _one_device_jobs(seed: int, n: int = 200) -> JobTable:
    rng = np.random.default_rng(seed)
    submit, work = np.cumsum(rng.exponential(1.0, n)), rng.exponential(6.0, n) + 0.01
    return JobTable(submit, np.ones(n, np.int64), work, work, submit, np.zeros(n))


@pytest.mark.parametrize("kind,preemptive", [(0, False), (1, True), (2, True), (3, True)])
def test_jobs_of_one_device_keep_the_room_busy(kind: int, preemptive: bool) -> None:
    """Work conservation: no device idles while a job waits, so that all policies end their busy periods together."""
    jobs = _one_device_jobs(3)
    rules = _rules(kind=kind, preemptive=preemptive, limits=np.array([2.0, 8.0]))
    course = run_queue(jobs, rules, NONE, np.array([4, 2]), twin=True)
    s = course.segments
    for moment in np.random.default_rng(1).uniform(0, course.end_s.max(), 300):
        busy = ((s.start_s <= moment) & (moment < s.end_s)).sum()
        present = ((jobs.submit_s <= moment) & (moment < course.end_s)).sum()
        assert busy == min(present, 6)


def test_little() -> None:
    """Mean jobs present are arrivals a second times the mean time in the room."""
    jobs = _one_device_jobs(5, 2000)
    course = run_queue(jobs, _rules(), NONE, np.array([8]))
    span = course.end_s.max() - jobs.submit_s[0]
    moments = np.linspace(jobs.submit_s[0], course.end_s.max(), 200_001)[:-1]
    arrived = np.searchsorted(jobs.submit_s, moments, side="right")
    left = np.searchsorted(np.sort(course.end_s), moments, side="right")
    in_room = (arrived - left).mean()
    assert in_room == pytest.approx(len(jobs.submit_s) / span * (course.end_s - jobs.submit_s).mean(), rel=1e-3)


def test_shortest_remaining_first_has_the_least_mean_on_one_device() -> None:
    jobs = _one_device_jobs(8)._replace(submit_s=np.sort(np.random.default_rng(2).uniform(0, 900, 200)))
    means = {}
    for name, kind, preemptive, blocking in (
        ("fifo", 0, False, STRICT),
        ("srtf", 1, True, SKIP),
        ("las", 3, True, SKIP),
    ):
        rules = _rules(kind=kind, preemptive=preemptive, blocking=blocking, limits=np.arange(1.0, 60.0))
        course = run_queue(jobs, rules, NONE, np.array([1]), twin=True)
        means[name] = (course.end_s - jobs.submit_s).mean()
    assert means["srtf"] < means["las"] and means["srtf"] < means["fifo"]


@pytest.mark.parametrize("seed", range(40))
def test_backfilling_never_delays_the_head(seed: int) -> None:
    """With exact estimates the job that was at the head starts no later than its reservation when it got there.

    The reservation is what the head would get if nothing behind it ever started: the same run cut off after it.
    """
    rng = np.random.default_rng(seed)
    n, capacity = 30, np.array([8, 8, 4])
    submit = np.sort(rng.integers(0, 150, n)).astype(float)
    devices = rng.choice([1, 1, 2, 4, 8, 16], n).astype(np.int64)
    work = rng.integers(5, 120, n).astype(float)
    jobs = JobTable(submit, devices, work, work, submit, np.zeros(n))
    easy = run_queue(jobs, _rules(blocking=EASY), NONE, capacity, twin=True)
    s = easy.segments
    for head in range(1, n):
        reached = max(submit[head], easy.first_start_s[:head].max())  # the head from then on
        if easy.first_start_s[head] <= reached:
            continue
        before = np.flatnonzero((easy.first_start_s <= reached) & (easy.end_s > reached))
        free = capacity.copy()
        held = {int(j): int(s.node[np.flatnonzero(s.job == j)[0]]) for j in before}
        if any(devices[j] > 8 for j in before) or devices[head] > 8:
            continue  # several nodes: their list is not in the segments
        for j, node in held.items():
            free[node] -= devices[j]
        latest = reached
        for j in [None, *sorted(held, key=lambda j: easy.end_s[j])]:
            if j is not None:
                free[held[j]] += devices[j]
                latest = easy.end_s[j]
            if (free >= devices[head]).any():
                break
        assert easy.first_start_s[head] <= latest + 1e-9


def test_backfilling_lets_small_jobs_through() -> None:
    """A job behind a blocked head starts at once if it ends in time, and not if it would hold the head's devices."""
    submit = np.array([0.0, 1.0, 2.0, 3.0])
    jobs = JobTable(submit, np.array([6, 8, 2, 2]), np.array([10.0, 5.0, 8.0, 9.0]), np.zeros(4), submit, np.zeros(4))
    jobs = jobs._replace(estimate_s=jobs.work_s)
    course = run_queue(jobs, _rules(blocking=EASY), NONE, np.array([8]), twin=True)
    assert course.first_start_s.tolist() == [0.0, 10.0, 2.0, 15.0]
