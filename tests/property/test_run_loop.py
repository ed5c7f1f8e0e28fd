"""Laws of the loop over states of a run: kernel and twin, times that add up, limits, and the renewal process."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from run_programs import DAY, simple

from windtunnel.runs.checkpoint.interval import Level, daly_s, expected_stretch, optimal_interval_s, young_s
from windtunnel.runs.event_loop.program import CLASSES, Job, Kinds, Market, Nodes, Program, Repair, Restart, Tiers
from windtunnel.runs.event_loop.replicate import Frailty, jitted, plain, replications

pytestmark = pytest.mark.property


def drawn(seed: int) -> tuple[Program, Frailty]:
    """A small run of random kinds of failures, tiers, nodes and times."""
    r = np.random.default_rng(seed)
    num_kinds, num_tiers, nodes = int(r.integers(1, 6)), int(r.integers(1, 4)), int(r.integers(2, 40))
    work = r.uniform(0.5, 20) * DAY
    per = r.integers(0, 3, num_kinds).astype(np.int64)
    groups = np.array([nodes, max(nodes / 4, 1), 1.0])
    survives = np.where(r.random((num_kinds, num_tiers)) < 0.4, r.random((num_kinds, num_tiers)), 1.0)
    survives[:, -1] = 1.0
    kinds = Kinds(
        per,
        r.uniform(0, 60) / work / num_kinds / groups[per],
        r.random(num_kinds) < 0.6,
        r.uniform(0, 900, num_kinds),
        r.uniform(0, 900, num_kinds),
        r.uniform(0, 900, num_kinds) * (r.random(num_kinds) < 0.2),
        np.where(r.random(num_kinds) < 0.2, 1.3, 1.0),
        r.random(num_kinds) < 0.2,
        r.random(num_kinds) < 0.2,
        r.random(num_kinds) < 0.3,
        survives,
    )
    tiers = Tiers(
        np.cumprod(r.integers(1, 4, num_tiers)).astype(np.int64),
        r.uniform(0, 30, num_tiers) * (r.random(num_tiers) < 0.8),
        r.uniform(0, 100, num_tiers),
        r.uniform(0, 400, num_tiers),
        r.integers(1, 5, num_tiers),
    )
    pool = Nodes(
        nodes,
        *(int(n) for n in r.integers(0, 3, 3)),
        int(r.integers(1, 9)),
        int(r.integers(1, 4)),
        float(r.choice([1.0, 0.7, 1.5])),
        bool(r.random() < 0.5),
    )
    repair = Repair(
        r.uniform(600, 7200),
        r.uniform(3600, 90000),
        0.5,
        0.3,
        0.2,
        int(r.integers(0, 3)),
        bool(r.random() < 0.5),
        int(r.integers(0, 4)),
        7 * DAY,
    )
    slow = np.array([1.0, *(1 + 0.1 * np.arange(1, r.integers(1, 5)))])
    job = Job(
        work,
        r.uniform(300, 7200),
        slow,
        float(r.choice([math.inf, 7 * DAY])),
        3600.0,
        work * 30,
        float(r.choice([1.0, 1.3])),
    )
    restart = Restart(
        *r.uniform(0, 300, 8), float(r.choice([0.0, 3600.0])), float(r.integers(1, 4)), float(r.choice([0.0, 900.0]))
    )
    program = Program(job, kinds, tiers, pool, repair, restart)
    if seed % 2:
        program = spot_fleet(program, r)
    return program, Frailty(float(r.choice([0.0, 0.5])), float(r.choice([0, 0.2])), 4.0)


def spot_fleet(program: Program, r: np.random.Generator) -> Program:
    """The same run on nodes that come and go, with copies that may be corrupt."""
    n, num_tiers, events = program.num_nodes, len(program.tiers.every), int(r.integers(1, 60))
    at = np.sort(r.uniform(0, 3 * DAY, events)).round(-2)
    nodes = r.integers(0, n, events)
    market = Market(at, nodes, r.random(events) < 0.6, 3 * DAY, int(r.integers(1, n)), float(r.choice([0.0, 120.0])))
    tiers = program.tiers._replace(
        corrupt=np.where(r.random(num_tiers) < 0.5, 0.2, 0.0),
        group=r.integers(1, 4, num_tiers),
        tolerates=r.integers(0, 3, num_tiers),
    )
    slow = 1 + 0.02 * np.arange(n // program.nodes.per_replica + 1)
    return replace(program, market=market, tiers=tiers, job=program.job._replace(slow_by_missing=slow))


@pytest.mark.parametrize("seed", range(40))
def test_the_kernel_is_its_twin(seed: int) -> None:
    program, frailty = drawn(seed)
    for fast, slow in zip(
        replications(program, frailty, 2, seed, jitted), replications(program, frailty, 2, seed, plain), strict=True
    ):
        assert fast.seconds == pytest.approx(slow.seconds, rel=1e-9, abs=1e-6 * slow.wall_s)
        assert fast.counts.tolist() == slow.counts.tolist()
        for name in ("restarts", "retired", "finished", "reclaimed", "reclaims", "fallbacks"):
            assert getattr(fast, name) == getattr(slow, name), name
        assert fast.held_node_s == pytest.approx(slow.held_node_s, rel=1e-9)
        assert fast.job_node_s == pytest.approx(slow.job_node_s, rel=1e-9)
        assert fast.stops == pytest.approx(slow.stops, rel=1e-9, abs=1e-3)


@pytest.mark.parametrize("seed", range(40, 60))
def test_times_are_positive_and_finished_runs_did_all_steps(seed: int) -> None:
    program, frailty = drawn(seed)
    for run in replications(program, frailty, 3, seed):
        assert (run.seconds >= -1e-6).all()
        if run.finished:
            assert run.seconds[0] == pytest.approx(program.job.work_s)


def test_without_failures_and_with_free_saves_a_run_takes_its_ideal_time() -> None:
    free = simple(0.0)
    free = replace(free, tiers=free.tiers._replace(block_s=np.zeros(1)), restart=Restart(*[0.0] * 8))
    (run,) = replications(free, Frailty(), 1, 1)
    assert run.wall_s == pytest.approx(free.job.work_s, rel=1e-12)


def test_saves_alone_cost_their_stops() -> None:
    program = simple(0.0)
    (run,) = replications(program, Frailty(), 1, 1)
    assert run.seconds[CLASSES.index("save")] == pytest.approx(60.0 * (100 * 24 - 1))


@pytest.mark.parametrize(
    ("rate", "interval_s"), [(1e-5, 3600.0), (1e-4, 1800.0), pytest.param(3e-4, 600.0, marks=pytest.mark.slow)]
)
def test_the_mean_is_that_of_the_renewal_process(rate: float, interval_s: float) -> None:
    program = simple(rate, work_s=300 * DAY, interval_s=interval_s)
    wall = np.mean([run.wall_s for run in replications(program, Frailty(), 200, 3)]) - 300.0  # the first start
    level = Level(rate=rate, restart_s=300.0, save_s=60.0, lag_s=0.0, every=1)
    expected = expected_stretch(interval_s, [level], at_risk_always=True) * program.job.work_s
    assert wall == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("save_s", [1.0, 20.0, 300.0])
@pytest.mark.parametrize("mtbf_s", [3600.0, 86400.0])
def test_the_optimal_interval_is_the_exact_one_and_daly_is_near(save_s: float, mtbf_s: float) -> None:
    level = Level(rate=1.0 / mtbf_s, restart_s=0.0, save_s=save_s, lag_s=0.0, every=1)
    best = optimal_interval_s([level], at_risk_always=False, least_s=0.1, most_s=1e9)
    grid = best * np.linspace(0.5, 1.5, 2001)
    exact = grid[np.argmin([expected_stretch(t, [level], at_risk_always=False) for t in grid])]
    assert best == pytest.approx(exact, rel=1e-2)
    assert daly_s(save_s, mtbf_s) == pytest.approx(best, rel=1e-2)
    if save_s < 0.01 * mtbf_s:
        assert young_s(save_s, mtbf_s) == pytest.approx(best, rel=0.1)


def test_the_optimal_interval_is_the_shortest_run_when_simulated() -> None:
    level = Level(rate=1e-4, restart_s=300.0, save_s=60.0, lag_s=0.0, every=1)
    best = optimal_interval_s([level], at_risk_always=True, least_s=1.0, most_s=1e9)

    def mean(interval_s: float) -> float:
        runs = replications(simple(1e-4, work_s=300 * DAY, interval_s=interval_s), Frailty(), 60, 5)
        return float(np.mean([run.wall_s for run in runs]))

    assert mean(best) < min(mean(best / 3), mean(best * 3))


def test_wear_and_infant_mortality_keep_the_mean_number_of_failures_of_new_nodes() -> None:
    """Node failures renew the node: over long runs the mean rate is the stated one whatever the shape."""
    counts = {}
    for shape in (0.7, 1.0, 2.0):
        program = simple(1e-4, work_s=300 * DAY)
        program = replace(program, nodes=program.nodes._replace(shape=shape, at_risk_always=False))
        counts[shape] = np.mean([r.counts.sum() / r.wall_s for r in replications(program, Frailty(), 40, 2)])
    assert counts[0.7] == pytest.approx(counts[1.0], rel=0.03)
    assert counts[2.0] == pytest.approx(counts[1.0], rel=0.03)


def test_the_same_seed_gives_the_same_run_and_more_replications_keep_the_first() -> None:
    program, frailty = drawn(7)
    few, many = list(replications(program, frailty, 2, 11)), list(replications(program, frailty, 5, 11))
    for a, b in zip(few, many, strict=False):
        assert (a.seconds == b.seconds).all()
