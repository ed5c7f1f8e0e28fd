"""What the kernel and its twin read and write: arrays in named tuples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Ints

STATIC, REMAINING, REMAINING_DEVICES, ATTAINED, RANKED = 0, 1, 2, 3, 4
"""What orders the queue: a number a job that never changes; seconds left; seconds left times devices; the level of
device-seconds received and then the place in the queue of that level; or a rank, the column `key`, inside which those
that run stay before those that wait, older starts and earlier submissions first: only a lower rank gives way."""
SKIP, STRICT, EASY = 0, 1, 2
"""When a job finds no room: later ones may start, none may, or those that do not delay it may."""
CONSOLIDATED, BEST_FIT, SPREAD = 0, 1, 2
WAITING, RUNNING, DONE, AHEAD = 1, 2, 3, 0
NEVER = 1e300
LEVEL, WAITS = 4e9, 2e9
"""Distance of two levels in a key, and of those that wait from those that run: above any place in a queue, and above
the seconds of any trace. Two ranks are further apart than that."""
CAPACITY, CLAIM, BREAKS, CRASHES, PAUSE, RELEASE, WITHDRAW = range(7)
"""What an event of `Outages` is: a node's capacity changes and its jobs stop where it falls; it changes and only as
many jobs stop as no longer fit; a node fails and nobody knows yet; the processes of one device fail; a job (in the
column `node`) is put aside; it joins the queue again; it is put aside even where it waits."""
SOUND, FAILS, REQUEUES, RESTARTS, DRAINS = range(5)
"""What happens to a running job at its `finish`: it ends; a failure of its own comes; a failure is known and it waits
anew, is restarted in place, or saves and waits anew."""
ENDED_WELL, PREEMPTED, FAILED, PAUSED = range(4)
"""Why a stretch of running ended."""


_NO_FLOATS, _NO_INTS = np.zeros(0), np.zeros(0, np.int64)


class JobTable(NamedTuple):
    """Jobs as the loop reads them, in the order of submission."""

    submit_s: Floats
    devices: Ints
    work_s: Floats
    estimate_s: Floats
    key: Floats
    """What STATIC orders by."""
    overhead_s: Floats
    """Seconds without progress after a start."""
    spread_speed: Floats = _NO_FLOATS
    """Speed on more nodes than a job needs; empty: that of the rules. `filled` writes it out."""
    save_s: Floats = _NO_FLOATS
    """Work between two checkpoints; empty: that of the rules."""
    held: Ints = _NO_INTS
    """1: the job joins the queue by a RELEASE, not at its submission; empty: all at submission."""


class Rules(NamedTuple):
    """How the loop decides."""

    kind: int
    preemptive: bool
    blocking: int
    placement: int
    repack: bool
    """Whether every decision places everything anew, so that all that run lose the overhead."""
    limits: Floats
    """Device-seconds at which a job falls to the next level (ATTAINED)."""
    spread_speed: float
    save_s: float
    """Work between two checkpoints."""
    depth: int
    """Jobs behind the head that EASY looks at."""
    tick_s: float = 0.0
    """Seconds between two decisions; 0: at every arrival and end."""
    preempted_save: bool = True
    """Whether a job that has to give way saves first; otherwise it goes back to its last checkpoint."""
    guaranteed_s: float = 0.0
    """Seconds from its start in which nobody preempts a job."""
    relax_s: float = NEVER
    """Seconds that a job waits for nodes by `placement`; from then on `relaxed` is good enough."""
    relaxed: int = BEST_FIT


class Outages(NamedTuple):
    """What befalls nodes and jobs from outside, in the order of its time."""

    time_s: Floats
    node: Ints
    capacity: Ints
    """Of the node from then on (CAPACITY, CLAIM), or the number of the device on it (CRASHES)."""
    kind: Ints = _NO_INTS
    """CAPACITY …; empty: all CAPACITY."""
    cause: Ints = _NO_INTS
    """Row of `Causes`; −1 or empty: none, and what came after the last checkpoint is lost."""


class Causes(NamedTuple):
    """Failures by cause, and those that strike jobs as wholes."""

    known_s: Floats
    """From the failure to the moment when it is known which node to replace."""
    slow: Floats
    """Above 1: the job goes on, slower by that, until it is known."""
    drains: Ints
    """1: the job goes on until then and saves."""
    in_place: Ints
    """1: it restarts where it is."""
    share: Floats
    """Of failures of jobs as wholes, summed up over causes."""
    per_job_s: float = 0.0
    """Failures of a job as a whole in a second of running."""
    seed: int = 0


NO_CAUSES = Causes(np.zeros(0), np.ones(0), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class Segments(NamedTuple):
    """Stretches of running, as they end."""

    job: Ints
    start_s: Floats
    end_s: Floats
    node: Ints
    """First node."""
    nodes: Ints
    why: Ints
    """ENDED_WELL, PREEMPTED, FAILED or PAUSED."""
    lost_s: Floats
    """Seconds of work that were lost in it."""


class State(NamedTuple):
    """All that changes. Filled by `new_state`, read when the loop has ended."""

    status: Ints
    remaining: Floats
    """Seconds of work left when the job last started or was last looked at."""
    ready: Floats
    """When its overhead is over."""
    speed: Floats
    finish: Floats
    started: Floats
    attained: Floats
    run_key: Floats
    first_start: Floats
    end: Floats
    run_s: Floats
    """Seconds on devices, overheads included."""
    queued: Floats
    """When the job last joined the queue."""
    clock_speed: Floats
    """Speed at the clock that its rows' feeds allow, over that at the full clock; part of `speed`."""
    lock: Ints
    """That clock: FULL … of `power_records`."""
    locked: Floats
    """Since when `held_back` lacks what the clock takes."""
    held_back: Floats
    """Seconds of progress that locked clocks have taken."""
    starts: Ints
    level: Ints
    """Of device-seconds received (ATTAINED)."""
    place: Floats
    """In the queue of the level: who enters a level goes to its end, and who is preempted before those that wait."""
    fresh: Ints
    """1 of a job that started or fell to its level at this decision: it is to stand behind those that ran before."""
    slot: Ints
    kills: Ints
    """Ends by a failure."""
    fate: Ints
    """What happens at `finish`: SOUND …"""
    fails_at: Floats
    """When the job's own next failure comes."""
    lost: Floats
    """Work lost in the present stretch."""
    draws: Ints
    """Random numbers that each job has used."""
    broken: Ints
    """Nodes that have failed and of which nobody knows yet."""
    slowed: Floats
    """By how much a node slows jobs."""
    stream: npt.NDArray[np.uint64]
    slot_nodes: Ints
    slot_uses: Ints
    slot_width: Ints
    free_slots: Ints
    running: Ints
    waiting: Ints
    capacity: Ints
    free: Ints
    room: Ints
    """Idle devices of each node in the placement that is being made."""
    claimed: Ints
    """Devices of nodes that running jobs hold which were not yet looked at."""
    scratch: Ints
    picked: Ints
    uses: Ints
    kept: Ints
    wait_sizes: Ints
    """How many waiting jobs need each number of devices."""
    at: Ints
    """Counters: see the names below."""
    clock: Floats
    """Seconds now, and the end of the head's reservation."""


ARRIVED, ENDED, CHANGED, NUM_RUNNING, LOW, HIGH, NUM_SLOTS, NUM_SEGMENTS, EVENTS, PLACES = range(10)


def new_state(jobs: JobTable, capacity: Ints, width: int) -> State:
    """Nothing has arrived, everything is idle.

    Args:
        jobs: all jobs.
        capacity: devices of each node.
        width: nodes that one job can be on.
    """
    n, nodes = len(jobs.submit_s), len(capacity)
    most = min(n, max(int(capacity.sum()) // max(int(jobs.devices.min()), 1), 1))
    slots = 2 * most  # during a decision those that stop and those that start hold theirs together
    at = np.zeros(10, np.int64)
    at[LOW] = at[HIGH] = n + 1
    at[NUM_SLOTS] = slots

    def ints(size: int) -> Ints:
        return np.zeros(size, np.int64)

    def floats() -> Floats:
        return np.zeros(n)

    return State(
        status=ints(n),
        remaining=jobs.work_s.astype(np.float64),
        ready=floats(),
        speed=np.ones(n),
        finish=floats(),
        started=floats(),
        attained=floats(),
        run_key=floats(),
        first_start=np.full(n, np.nan),
        end=np.full(n, np.nan),
        run_s=floats(),
        queued=floats(),
        clock_speed=np.ones(n),
        lock=ints(n),
        locked=floats(),
        held_back=floats(),
        starts=ints(n),
        level=ints(n),
        place=floats(),
        fresh=ints(n),
        slot=np.full(n, -1, np.int64),
        kills=ints(n),
        fate=ints(n),
        fails_at=np.full(n, NEVER),
        lost=floats(),
        draws=ints(n),
        broken=ints(nodes),
        slowed=np.ones(nodes),
        stream=np.zeros(1, np.uint64),
        slot_nodes=np.zeros((slots, width), np.int64),
        slot_uses=np.zeros((slots, width), np.int64),
        slot_width=ints(slots),
        free_slots=np.arange(slots, dtype=np.int64)[::-1].copy(),
        running=ints(slots + 1),
        waiting=ints(2 * n + 4),
        capacity=capacity.astype(np.int64),
        free=capacity.astype(np.int64),
        room=ints(nodes),
        claimed=ints(nodes),
        scratch=ints(nodes),
        picked=ints(width),
        uses=ints(width),
        kept=ints(slots + 1),
        wait_sizes=ints(int(jobs.devices.max()) + 1),
        at=at,
        clock=np.zeros(2),
    )


def new_segments(length: int) -> Segments:
    """Room for that many."""
    ints = [np.zeros(length, np.int64) for _ in range(4)]
    floats = [np.zeros(length) for _ in range(3)]
    return Segments(ints[0], floats[0], floats[1], ints[1], ints[2], ints[3], floats[2])


def filled(jobs: JobTable, rules: Rules) -> JobTable:
    """Jobs with the columns that the rules stand for."""
    n = len(jobs.submit_s)
    return jobs._replace(
        spread_speed=jobs.spread_speed if len(jobs.spread_speed) else np.full(n, rules.spread_speed),
        save_s=jobs.save_s if len(jobs.save_s) else np.full(n, rules.save_s),
        held=jobs.held if len(jobs.held) else np.zeros(n, np.int64),
    )


def all_told(outages: Outages) -> Outages:
    """Events with their kinds and causes written out."""
    m = len(outages.time_s)
    return outages._replace(
        kind=outages.kind if len(outages.kind) else np.zeros(m, np.int64),
        cause=outages.cause if len(outages.cause) else np.full(m, -1, np.int64),
    )
