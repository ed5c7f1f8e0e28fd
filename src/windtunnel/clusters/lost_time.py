"""Device time that jobs held without getting on, by what took it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.clusters.event_loop.records import FAILED, PREEMPTED, Segments

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LostTime:
    """Device-hours of all jobs. What is held is useful, or lost to one of the others."""

    useful: float
    """What the work takes on the devices that the jobs are stated for."""
    failures: float
    """Work that failures undid, and starting anew after them."""
    restarts: float
    """The same of jobs that had to give way when a job that had failed started again."""
    preemptions: float
    """The same of other jobs that had to give way."""
    starts: float
    """First starts, and starts after a pause."""
    capped: float
    """Locked clocks of rows that share a feed."""
    scaling: float
    """Of elastic jobs, and under policies of rounds: what their work takes beyond that on the devices that they get,
    because more of them are less efficient, or others slower."""
    standing: float
    """Failures that nobody knew of yet, stragglers, and jobs on more nodes than they need."""

    @property
    def held(self) -> float:
        """All device-hours of jobs."""
        lost = self.failures + self.restarts + self.preemptions + self.starts
        return self.useful + lost + self.capped + self.scaling + self.standing

    def to_dict(self) -> dict[str, float]:
        """Device-hours by class, and the useful share."""
        names = ("useful", "failures", "restarts", "preemptions", "starts", "capped", "scaling", "standing")
        classes = {f"{name}_device_h": getattr(self, name) for name in names}
        return classes | {"goodput": self.useful / self.held if self.held > 0 else 1.0}


def lost_time(
    segments: Segments,
    devices: Ints,
    work_s: Floats,
    overhead_s: Floats,
    held: Floats | None = None,
    capped: float = 0.0,
    other_devices: bool = False,
) -> LostTime:
    """What became of the device time that jobs held.

    Args:
        segments: stretches of running, sorted by start.
        devices: of each job.
        work_s: of each job.
        overhead_s: of a start of each job.
        held: devices of each segment, where they are not the job's.
        capped: device-hours that locked clocks took.
        other_devices: whether jobs get other devices than those that their work is stated for.
    """
    s = segments
    each = (devices[s.job] if held is None else held) / _HOUR_S
    before = _before(s)
    overhead = np.minimum(overhead_s[s.job], s.end_s - s.start_s) * each
    undone = s.lost_s * each
    by_restart = _given_way_to_restarts(s, before)
    after_restart = _carried(s, by_restart)
    given_way = s.why == PREEMPTED
    useful = float((work_s * devices).sum()) / _HOUR_S
    failures = float(undone[~given_way].sum() + overhead[before == FAILED].sum())
    restarts = float(undone[by_restart].sum() + overhead[after_restart].sum())
    after_other = (before == PREEMPTED) & ~after_restart
    preemptions = float(undone[given_way & ~by_restart].sum() + overhead[after_other].sum())
    starts = float(overhead[(before != FAILED) & (before != PREEMPTED)].sum())
    whole = float(((s.end_s - s.start_s) * each).sum())
    got_on = max(whole - failures - restarts - preemptions - starts - capped, 0.0)
    useful = min(useful, got_on) if other_devices else useful
    scaling = got_on - useful if other_devices else 0.0
    standing = max(whole - scaling - useful - failures - restarts - preemptions - starts - capped, 0.0)
    return LostTime(
        useful=useful,
        failures=failures,
        restarts=restarts,
        preemptions=preemptions,
        starts=starts,
        capped=capped,
        scaling=scaling,
        standing=standing,
    )


def _before(s: Segments) -> Ints:
    """Why each job's stretch before this one ended; −1: there was none."""
    order = np.lexsort((s.start_s, s.job))
    job, why = s.job[order], s.why[order]
    out = np.full(len(job), -1, np.int64)
    out[order[1:]] = np.where(job[1:] == job[:-1], why[:-1], -1)
    return out


def _given_way_to_restarts(s: Segments, before: Ints) -> Mask:
    """Stretches that ended at the moment when a job that had failed started again."""
    moments = np.unique(s.start_s[before == FAILED])
    given_way: Mask = (s.why == PREEMPTED) & np.isin(s.end_s, moments)
    return given_way


def _carried(s: Segments, marked: Mask) -> Mask:
    """The stretches of the same jobs that follow marked ones."""
    order = np.lexsort((s.start_s, s.job))
    job = s.job[order]
    out = np.zeros(len(job), np.bool_)
    out[order[1:]] = (job[1:] == job[:-1]) & marked[order[:-1]]
    return out
