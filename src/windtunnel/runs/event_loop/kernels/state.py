"""What changes during a run and what does not, as jitted code reads them."""

# Numba's decorators and named tuples of arrays have no static types.
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windtunnel.arrays import uniform
from windtunnel.jit import helper
from windtunnel.runs.event_loop.program import (
    PER_JOB,
    PER_NODE,
    PER_RACK,
    Job,
    Kinds,
    Market,
    Nodes,
    Program,
    Repair,
    Restart,
    Tiers,
)

Array = Any

# places in `State.clock`
NOW, RISK, DONE, SAVE_LEFT, SLOW, SLOW_UNTIL, SILENT_AT, SILENT_DONE, MAINTAIN_AT = range(9)
STARTED, HELD, HELD_SINCE, USED, USED_SINCE = range(9, 14)
# places in `State.count`
GRID, IN_JOB, MISSING, RESTARTS, MANUAL, RETIRED, STOPS, SLOW_KIND, SLOW_NODE, SILENT_KIND, SILENT_ENTITY = range(11)
EVENT, PRESENT, GONE, RECLAIMED, RECLAIMS, FALLBACKS = range(11, 17)
# queues of nodes, and where else a node can be
SPARE, IDLE, SHARED, IN_THE_JOB, IN_REPAIR, NOT_USED, AWAY = range(7)
PLANNED, RECLAIM = -1, -2
"""Kinds of stops that no failure caused: planned ones, and nodes of a spot fleet that are reclaimed."""
UP = -3
"""In place of a kind: nothing struck."""
EPSILON = 1e-9


class State(NamedTuple):
    """What changes during a run. N nodes, R racks, K tiers; entities are nodes, racks, then the job."""

    clock: Array
    """Seconds: wall time, time at risk, work done, rest of a save; factor and end of a straggler; when a silent error
    is detected and the work that was done when it happened; the next maintenance; when the job last started;
    node-seconds of the spot fleet and of the job, and up to when they are counted."""
    count: Array
    queue: Array
    """Spares, idle and shared nodes in the order in which they are taken, shape (3, N)."""
    head: Array
    size: Array
    where: Array
    """Of each node: a queue, IN_THE_JOB, IN_REPAIR, NOT_USED, or AWAY where the spot fleet does not have it."""
    key: Array
    """Time at risk at which an entity fails next; infinite where it is not in the job."""
    age: Array
    """Time at risk of each entity since its last failure or repair, when it joined."""
    joined: Array
    heap_at: Array
    heap_who: Array
    heap_size: Array
    repair_at: Array
    repair_who: Array
    repair_size: Array
    crew_free: Array
    """When each crew is free, shape (crews,)."""
    multiplier: Array
    """On a node's failure rate."""
    bad: Array
    """On a bad node's failure rate until a repair succeeds, else 1."""
    recent: Array
    """Times of a node's last failures, shape (N, retire_after)."""
    last: Array
    """Work done at the last save of each tier; -1: none."""
    before: Array
    """That of the save before it."""
    ended: Array
    """Wall time at which the last save's stop ended."""
    gone: Array
    """Nodes that were reclaimed from the job since copies were last looked at, shape (N,)."""
    seconds: Array
    kinds: Array
    stops: Array
    random: Array


class Machine(NamedTuple):
    """What does not change during a run."""

    job: Job
    kinds: Kinds
    tiers: Tiers
    nodes: Nodes
    repair: Repair
    restart: Restart
    market: Market
    rate_of: Array
    """Failures of one node, rack or job in a second of running, shape (3,)."""


def machine_of(program: Program) -> Machine:
    """The program as the kernel reads it."""
    kinds = program.kinds
    rates = np.array([sum(kinds.rate[kinds.per == group].tolist()) for group in (PER_NODE, PER_RACK, PER_JOB)], float)
    tiers, none = program.tiers, np.zeros(len(program.tiers.every))
    tiers = tiers._replace(
        corrupt=tiers.corrupt if len(tiers.corrupt) else none,
        group=tiers.group if len(tiers.group) else np.ones(len(none), np.int64),
        tolerates=tiers.tolerates if len(tiers.tolerates) else np.full(len(none), 1 << 30),
    )
    machine = Machine(program.job, kinds, tiers, program.nodes, program.repair, program.restart, program.market, rates)
    return uniform(machine)


@helper
def spend(s: State, what: int, seconds: float) -> None:
    """Wall time in which no step runs."""
    s.clock[NOW] += seconds
    s.seconds[what] += seconds


@helper
def count_job_nodes(s: State) -> None:
    """Node-seconds of the job up to now; called before their number changes."""
    s.clock[USED] += s.count[IN_JOB] * (s.clock[NOW] - s.clock[USED_SINCE])
    s.clock[USED_SINCE] = s.clock[NOW]
