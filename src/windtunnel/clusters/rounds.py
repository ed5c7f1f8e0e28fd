"""The loop of policies that decide in rounds: shares of time on each kind of device become what runs next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.clusters.event_loop.records import ENDED_WELL, PREEMPTED, Segments
from windtunnel.clusters.event_loop.run import Course
from windtunnel.clusters.jobs import LOWER, Growth
from windtunnel.clusters.ledger import Ledger
from windtunnel.clusters.round_policies.base import Active, RoundPolicy
from windtunnel.progress import counting


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundJobs:
    """Jobs on kinds of devices."""

    submit_s: Floats
    devices: Ints
    work: Floats
    """Seconds on the kind that they are stated for."""
    speed: Floats
    """Job × kind, against the kind that `work` is stated for."""
    overhead_s: Floats
    counts: Ints
    """Devices of each kind."""
    step_s: Floats | None = None
    """Work of one step: a round holds whole steps. None: work can be cut anywhere."""
    growth: Growth | None = None
    """How jobs speed up as their batches grow. None: they do not."""
    prices: Floats | None = None
    """Of a device of each kind for an hour. None: all alike."""
    deadline_s: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRules:
    """When a policy is asked, and who may run."""

    round_s: float
    reset_s: float
    """Least seconds between two computations of shares."""
    newcomers_wait: bool
    """Whether jobs that came after the last computation wait for the next one, though devices idle."""
    knobs: Mapping[str, Any]
    seed: int


@dataclass(slots=True)
class _Run:
    """What changes."""

    left: Floats
    end: Floats
    first: Floats
    run_s: Floats
    starts: Ints
    kind: Ints
    """Where each job ran in the last round; −1: nowhere."""
    phase: Ints
    """Of `growth`: how often each job's batch has changed."""
    since: Floats
    """Start of the stretch of running that each job is in."""
    rows: list[tuple[int, float, float, int, int]]


def run_rounds(jobs: RoundJobs, policy: RoundPolicy, rules: RoundRules) -> Course:
    """Simulate all jobs.

    Jobs are looked at when a round begins; one that ends leaves its devices idle until the next. A round ends with the
    last of its jobs, after `round_s` at the latest.
    """
    n, kinds = jobs.speed.shape
    rng = np.random.default_rng([rules.seed, 11])
    _, speed_class = np.unique(np.column_stack([jobs.speed, jobs.devices]), axis=0, return_inverse=True)
    run, ledger = _new_run(jobs), Ledger(n, kinds, rules.round_s)
    allocate = policy.begin(rules.knobs)
    active, arrived, now, rounds = np.zeros(0, np.int64), 0, float(jobs.submit_s[0]), 0
    changed = True
    with counting("jobs", lambda: (float(np.isfinite(run.end).sum()), float(n)), LOWER) as pace:
        while arrived < n or len(active):
            pace.check()
            if not len(active):
                now = max(now, float(jobs.submit_s[arrived]))
            until = int(np.searchsorted(jobs.submit_s, now, side="right"))
            if until > arrived:
                active, arrived, changed = np.concatenate([active, np.arange(arrived, until)]), until, True
            if policy.every_round or (changed and now - ledger.computed_s >= rules.reset_s):
                ledger.settle(active, allocate(_view(jobs, run, active, speed_class, (now, rules.round_s))), now)
                changed = False
            order = rng.permutation(kinds) if policy.shuffled else np.arange(kinds)
            chosen = _choose(jobs, ledger, active, order, fixed=policy.fixed, wait=rules.newcomers_wait)
            growing = _growing(jobs, run, active[chosen >= 0])
            ended, seconds = _run_round(jobs, run, ledger, active, chosen, now, rules.round_s)
            changed |= _grow(jobs, run, growing)
            if ended.any():
                active, changed = active[~ended], True
            now += seconds
            rounds += 1
    return _course(run, rounds)


def _new_run(jobs: RoundJobs) -> _Run:
    n = len(jobs.work)
    return _Run(
        left=jobs.work.astype(np.float64),
        end=np.full(n, np.nan),
        first=np.full(n, np.nan),
        run_s=np.zeros(n),
        starts=np.zeros(n, np.int64),
        kind=np.full(n, -1, np.int64),
        phase=np.zeros(n, np.int64),
        since=np.zeros(n),
        rows=[],
    )


def _view(jobs: RoundJobs, run: _Run, active: Ints, speed_class: Ints, clock: tuple[float, float]) -> Active:
    now, round_s = clock
    growth = jobs.growth
    now_speed = jobs.speed[active]
    if growth is not None:
        now_speed = now_speed * growth.speed[active, run.phase[active]][:, None]
    return Active(
        jobs=active,
        devices=jobs.devices[active],
        speed=now_speed,
        counts=jobs.counts,
        kind=run.kind[active],
        left_s=run.left[active],
        work_s=jobs.work[active],
        age_s=now - jobs.submit_s[active],
        speed_class=speed_class[active],
        round_s=round_s,
        growth=None if growth is None else growth.only(active),
        due_s=None if jobs.deadline_s is None else jobs.deadline_s[active] - now,
        prices=jobs.prices,
        now_s=now - float(jobs.submit_s[0]),
    )


def _choose(jobs: RoundJobs, ledger: Ledger, active: Ints, order: Ints, *, fixed: bool, wait: bool) -> Ints:
    """Kind on which each active job runs in the round, −1 for none."""
    chosen = np.full(len(active), -1, np.int64)
    if fixed:
        own = ledger.shares[active]
        running = own.max(axis=1) > 0.5
        chosen[running] = own[running].argmax(axis=1)
        return chosen
    sizes, able = jobs.devices[active], jobs.speed[active] > 0
    if wait:
        able &= ledger.known[active][:, None]
    for kind in order:
        left = int(jobs.counts[kind])
        ranked = ledger.ranked(active, int(kind))
        ranked = ranked[(chosen[ranked] < 0) & able[ranked, kind]]
        if not len(ranked):
            continue
        if sizes[ranked].max() == 1:
            chosen[ranked[:left]] = kind
            continue
        for job in ranked:
            if sizes[job] <= left:
                chosen[job] = kind
                left -= int(sizes[job])
                if left == 0:
                    break
    return chosen


def _run_round(
    jobs: RoundJobs, run: _Run, ledger: Ledger, active: Ints, chosen: Ints, now: float, round_s: float
) -> tuple[Mask, float]:
    """Let the chosen jobs run; which of the active ones end, and how long the round takes."""
    before = run.kind[active]
    for job in active[(before >= 0) & (chosen != before)]:
        run.rows.append((int(job), float(run.since[job]), now, int(run.kind[job]), 1))
    on = np.flatnonzero(chosen >= 0)
    who, kind = active[on], chosen[on]
    fresh = before[on] != kind
    run.since[who[fresh]] = now
    run.starts[who[fresh]] += 1
    new = who[np.isnan(run.first[who])]
    run.first[new] = now
    run.kind[active] = chosen
    rate = jobs.speed[who, kind]
    if jobs.growth is not None:
        rate = rate * jobs.growth.speed[who, run.phase[who]]
    overhead = np.where(fresh, np.minimum(jobs.overhead_s[who], round_s), 0.0)
    needed = overhead + run.left[who] / rate
    done = needed <= round_s + 1e-9
    spent = np.where(done, needed, _whole_steps(jobs, run, who, rate, overhead, round_s))
    run.left[who] = np.maximum(run.left[who] - (spent - overhead) * rate, 0.0)
    run.run_s[who] += spent
    ledger.note(who, kind, spent)
    ended = np.zeros(len(active), bool)
    ended[on[done]] = True
    for job, at in zip(who[done], (now + needed[done]), strict=True):
        run.end[job], run.left[job] = at, 0.0
        run.rows.append((int(job), float(run.since[job]), float(at), int(run.kind[job]), 1))
    return ended, float(spent.max()) if len(spent) else round_s


def _whole_steps(jobs: RoundJobs, run: _Run, who: Ints, rate: Floats, overhead: Floats, round_s: float) -> Floats:
    """Seconds of a round that hold whole steps; all of it where a step takes longer than a round."""
    if jobs.step_s is None:
        return np.full(len(who), round_s)
    step = jobs.step_s[who]
    if jobs.growth is not None:
        step = step * jobs.growth.batch[who, run.phase[who]]
    lasts = step / rate
    whole = np.floor((round_s - overhead) / lasts + 1e-9) * lasts
    return np.where(whole > 0, overhead + whole, round_s)


def _growing(jobs: RoundJobs, run: _Run, who: Ints) -> Ints:
    """Jobs whose batches change after the round that begins, as their progress at its begin says."""
    growth = jobs.growth
    if growth is None:
        return who[:0]
    after = np.minimum(run.phase[who] + 1, growth.trigger_s.shape[1] - 1)
    due = jobs.work[who] - run.left[who] >= growth.trigger_s[who, after]
    growing: Ints = who[due & (after > run.phase[who])]
    return growing


def _grow(jobs: RoundJobs, run: _Run, growing: Ints) -> bool:
    """Change batches; whether any does. The epoch begun counts as done, as batches change between epochs."""
    growth = jobs.growth
    growing = growing[run.left[growing] > 0]
    if growth is None or not len(growing):
        return False
    run.phase[growing] += 1
    epoch = growth.epoch_s[growing]
    done = np.ceil((jobs.work[growing] - run.left[growing]) / epoch - 1e-9) * epoch
    run.left[growing] = np.maximum(jobs.work[growing] - done, 1e-9)
    return True


def _course(run: _Run, rounds: int) -> Course:
    rows = sorted(run.rows, key=lambda row: (row[1], row[0]))
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    return Course(
        first_start_s=run.first,
        end_s=run.end,
        run_s=run.run_s,
        starts=run.starts,
        kills=np.zeros(len(run.end), np.int64),
        segments=Segments(
            np.array(columns[0], np.int64),
            np.array(columns[1], np.float64),
            np.array(columns[2], np.float64),
            np.array(columns[3], np.int64),
            np.array(columns[4], np.int64),
            np.where(np.array(columns[2]) >= run.end[np.array(columns[0], np.int64)], ENDED_WELL, PREEMPTED),
            np.zeros(len(rows)),
        ),
        events=rounds,
    )
