"""A whole run in closed form: the expected wall time of its program, without a replication.

Sources: Daly 2006 for the cycle of work and save (`checkpoint.interval.expected_stretch`); Erlang's loss formula for
the share of the time in which a job waits for a node, nodes in repair being the busy servers (insensitive to how repair
times are distributed). Times between failures are taken as exponential and nodes as all alike; finite repair crews,
retired nodes and nodes that stay bad are left to the replications.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.runs.checkpoint.interval import expected_stretch, levels_of
from windtunnel.runs.event_loop.program import PER_RACK, Program
from windtunnel.runs.spot.expected import SpotMean


@dataclass(frozen=True, slots=True)
class ExpectedRun:
    """Expected seconds of a run."""

    wall_s: float
    running_s: float
    """Of steps, lost ones included: the devices draw the step's power."""


def expected_run(program: Program, spot: SpotMean | None = None) -> ExpectedRun:
    """Expected seconds of a program.

    Args:
        program: The run.
        spot: What its spot fleet costs on average; None: nodes stay.

    Valid for: failures that are rarer than their restarts. Within 2.5 % of the replications' mean on the profiles of
    the catalogue with spares; without any, waiting is told within a tenth of the run
    (tests/unit/runs/test_expected_run.py).
    """
    job, kinds, tiers, nodes, restart = program.job, program.kinds, program.tiers, program.nodes, program.restart
    groups = np.array([nodes.job, -(-nodes.job // nodes.per_rack), 1])[kinds.per]
    rates = kinds.rate * groups
    noticed = kinds.slow > 1.0
    # a straggler runs on, slowly, until it is found; from there on it is a stop
    stops = kinds._replace(
        detect_s=np.where(noticed, 0.0, kinds.detect_s), diagnose_s=np.where(noticed, 0.0, kinds.diagnose_s)
    )
    levels = levels_of(stops, tiers, nodes, restart)
    crawl = float((rates * np.where(noticed, (kinds.detect_s + kinds.diagnose_s) * (1.0 - 1.0 / kinds.slow), 0)).sum())
    at_once = restart.compile_s + restart.refill_s
    planned = tiers.block_s[-1] + tiers.lag_s[-1] + restart.schedule_s + restart.initialise_s + at_once
    planned = float(planned + tiers.load_s[-1])
    drained = kinds.drains
    drains = float((rates * np.where(drained, planned + kinds.detect_s + kinds.diagnose_s + kinds.outage_s, 0)).sum())
    slow = job.waits * (_mean_slowness(program, rates) if spot is None else 1.0)
    stretch = expected_stretch(job.interval_s, levels, at_risk_always=nodes.at_risk_always)
    stretch += _from_scratch(program, rates)
    saves = float(sum(level.save_s / (job.interval_s * level.every) for level in levels))
    back = sum(level.rate * (level.restart_s + level.lag_s) for level in levels)
    unseen = float((rates * np.where(kinds.silent, kinds.detect_s, 0.0)).sum())
    running = job.work_s * (slow + crawl + unseen)
    wall = job.work_s * (stretch + slow - 1.0 + crawl + drains)
    lost = max(stretch - 1.0 - saves - back * stretch, 0.0)
    wall *= 1.0 + _waiting(program, rates) if spot is None else spot.stretch
    if math.isfinite(job.maintenance_every_s):
        wall *= 1.0 + (job.maintenance_s + planned) / job.maintenance_every_s
    wall += restart.schedule_s + restart.initialise_s + at_once
    running += job.work_s * lost
    return ExpectedRun(wall, min(running * (1.0 if spot is None else spot.stretch * spot.running), wall))


def _from_scratch(program: Program, rates: Floats) -> float:
    """What failures add after which no tier has a copy: the run begins anew."""
    kinds, restart = program.kinds, program.restart
    hopeless = (kinds.survives <= 0.5).all(axis=1) & ~kinds.drains
    rate, work_s = float(rates[hopeless].sum()), program.job.work_s
    if rate <= 0:
        return 0.0
    back = restart.schedule_s + restart.initialise_s + restart.compile_s + restart.refill_s
    back += float((rates * (kinds.detect_s + kinds.diagnose_s + kinds.outage_s))[hopeless].sum()) / rate
    return (1.0 / rate + back) * math.expm1(min(rate * work_s, 500.0)) / work_s - 1.0


def least_stretch(program: Program) -> float:
    """What `expected_run` over ideal time is at least, whatever a plan's bytes and step.

    Failures have to be gone through; saves and loads are free in it, and nothing is lost but the time until the next
    step.
    """
    kinds, nodes, restart = program.kinds, program.nodes, program.restart
    groups = np.array([nodes.job, -(-nodes.job // nodes.per_rack), 1])[kinds.per]
    rates = np.where(kinds.drains | (kinds.slow > 1.0), 0.0, kinds.rate * groups)
    again = np.where(kinds.in_place, restart.in_place_s, restart.schedule_s + restart.initialise_s)
    back = again + restart.compile_s + restart.refill_s + kinds.detect_s + kinds.diagnose_s + kinds.outage_s
    return 1.0 + float((rates * back).sum())


_ROUNDS = 4
_MOMENTS = 24
"""Moments of a run at which nodes in repair are counted: it begins with none."""


def _away_s(program: Program, end: float) -> list[float]:
    """Mean seconds of a node in repair, as far as they fit between the start of the run and each of its moments."""
    repair = program.repair
    at = (np.arange(_MOMENTS) + 0.5) / _MOMENTS * end

    def within(mean_s: float) -> Floats:
        return np.asarray(mean_s * -np.expm1(-at / mean_s) if mean_s > 0 else np.zeros(_MOMENTS), np.float64)

    away: list[float] = (within(repair.auto_s) + repair.manual_share * within(repair.manual_s)).tolist()
    return away


def _lost_per_s(program: Program, rates: Floats) -> float:
    """Nodes that leave the job in a second."""
    kinds = program.kinds
    each = np.where(kinds.per == PER_RACK, min(program.nodes.per_rack, program.nodes.job), 1)
    return float((rates * np.where(kinds.loses_nodes, each, 0)).sum())


def _waiting(program: Program, rates: Floats) -> float:
    """Seconds of waiting for nodes for each second of the rest."""
    lost = _lost_per_s(program, rates)
    if lost <= 0:
        return 0.0
    more = 0.0
    for _ in range(_ROUNDS):  # the longer the run waits, the more nodes are in repair in the mean of its moments
        away = _away_s(program, program.job.work_s * (1.0 + more))
        more = float(np.mean([_waiting_at(program, lost, lost * seconds) for seconds in away]))
    return more


def _waiting_at(program: Program, lost: float, load: float) -> float:
    """The same while so many nodes would be in repair on average."""
    nodes, restart = program.nodes, program.restart
    chosen = lost * restart.reselect_s * (_blocked(load, nodes.spares) if nodes.idle or nodes.shared else 0.0)
    taken = lost * restart.preempt_s * (_blocked(load, nodes.spares + nodes.idle) if nodes.shared else 0.0)
    if len(program.job.slow_by_missing) > 1:  # the job goes on with fewer
        return chosen + taken
    # the job stands still while more nodes are away than there are in reserve: no more can leave meanwhile
    share = _erlang_b(load, nodes.spares + nodes.idle + nodes.shared + 1)
    return chosen + taken + share / (1.0 - share)


def _blocked(load: float, reserve: int) -> float:
    """Probability that a lost node finds none in reserve: of Poisson many in repair at least so many."""
    return _erlang_b(load, reserve) if reserve else 1.0


def _erlang_b(load: float, servers: int) -> float:
    """Erlang's loss formula by its recursion."""
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
    return blocked


def _mean_slowness(program: Program, rates: Floats) -> float:
    """Mean factor on step time of a job that goes on with fewer replicas, nodes in repair being Poisson many."""
    if len(program.job.slow_by_missing) <= 1:
        return 1.0
    lost = _lost_per_s(program, rates)
    return float(np.mean([_slowness_at(program, lost * away) for away in _away_s(program, program.job.work_s)]))


def _slowness_at(program: Program, load: float) -> float:
    slow, nodes = program.job.slow_by_missing, program.nodes
    reserve, mean, left, share = nodes.spares + nodes.idle + nodes.shared, 0.0, 1.0, math.exp(-load)
    for away in range(int(load + 12.0 * math.sqrt(load) + 30)):
        missing = min(-(-max(away - reserve, 0) // nodes.per_replica), len(slow) - 1)
        mean += share * float(slow[missing])
        left -= share
        share *= load / (away + 1)
    return mean + max(left, 0.0) * float(slow[-1])
