"""What a run came to: completion times, load over time, fairness, watts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.event_loop.records import Segments
from windtunnel.clusters.jobs import Jobs

QUANTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and quantiles of seconds."""

    mean: float
    p50: float
    p90: float
    p99: float

    def to_dict(self) -> dict[str, float]:
        """For `--json`."""
        return {"mean": self.mean, "p50": self.p50, "p90": self.p90, "p99": self.p99}


def spread(values: Floats) -> Spread:
    """Mean and quantiles; a quantile is the value of a job, never one between two jobs."""
    quantiles = np.percentile(values, QUANTILES, method="higher")
    return Spread(float(values.mean()), *(float(q) for q in quantiles))


@dataclass(frozen=True, slots=True)
class Load:
    """Steps in time: entry i holds from `time_s[i]` to the next."""

    time_s: Floats
    busy: Floats
    """Devices with a job."""
    waiting: Ints
    """Jobs that have arrived and do not run."""
    present: Ints
    """Jobs that have arrived and not ended."""
    watts: Floats
    """Of the busy devices above idle; NaN where not known."""
    fleets: tuple[Floats, ...] = field(default=())
    """Devices that each serving fleet holds."""

    @property
    def serving(self) -> Floats:
        """Devices that serve."""
        held: Floats = np.sum(self.fleets, axis=0) if self.fleets else np.zeros(len(self.time_s))
        return held

    @property
    def lengths(self) -> Floats:
        """Seconds of each step; the last has none."""
        return np.diff(self.time_s, append=self.time_s[-1:])


def load_over_time(
    jobs: Jobs, segments: Segments, end_s: Floats, watts_above_idle: Floats, held: Floats | None = None
) -> Load:
    """Devices, jobs and watts from the first arrival to the last end; `held`: devices of each segment."""
    devices = jobs.devices[segments.job].astype(np.float64) if held is None else held
    above = devices * watts_above_idle[segments.job]
    n, m = len(jobs), len(segments.job)
    times = np.concatenate([segments.start_s, segments.end_s, jobs.submit_s, end_s])
    order = np.argsort(times, kind="stable")

    def steps(*parts: Floats | Ints) -> Floats:
        return np.cumsum(np.concatenate(parts)[order])

    none, ones = np.zeros(n), np.ones(m)
    busy = steps(devices, -devices, none, none)
    present = steps(np.zeros(m), np.zeros(m), np.ones(n), -np.ones(n))
    running = steps(ones, -ones, none, none)
    watts = steps(above, -above, none, none)
    at = times[order]
    last = np.flatnonzero(np.diff(at, append=np.inf) > 0)
    return Load(
        at[last],
        np.maximum(busy[last], 0.0),
        np.rint(present[last] - running[last]).astype(np.int64),
        np.rint(present[last]).astype(np.int64),
        watts[last],
    )


def beside_fleets(load: Load, fleets: Sequence[Floats], begin_s: float) -> Load:
    """A load with the devices and watts of fleets.

    Args:
        load: of the jobs.
        fleets: stretches of each: start, end (seconds after the first submission), devices, watts above idle; (N, 4).
        begin_s: first submission.
    """
    moments = [load.time_s, *(begin_s + own[:, :2].ravel() for own in fleets)]
    times = np.unique(np.concatenate(moments))
    times = times[times <= load.time_s[-1]]
    at = np.searchsorted(load.time_s, times, side="right") - 1
    held, watts = [], load.watts[at]
    for own in fleets:
        change, drawn = np.zeros(len(times) + 1), np.zeros(len(times) + 1)
        for column, sign in ((0, 1.0), (1, -1.0)):
            place = np.searchsorted(times, begin_s + own[:, column])
            np.add.at(change, place, sign * own[:, 2])
            np.add.at(drawn, place, sign * own[:, 3])
        held.append(np.rint(np.cumsum(change)[:-1]))
        watts = watts + np.cumsum(drawn)[:-1]
    return replace(
        load,
        time_s=times,
        busy=load.busy[at],
        waiting=load.waiting[at],
        present=load.present[at],
        watts=watts,
        fleets=tuple(held),
    )


def with_watts(load: Load, time_s: Floats, watts: Floats) -> Load:
    """A load whose watts above idle change at other moments too; `watts[i]` hold from `time_s[i]` on."""
    times = np.unique(np.concatenate([load.time_s, time_s[time_s <= load.time_s[-1]]]))
    at = np.searchsorted(load.time_s, times, side="right") - 1
    own = watts[np.maximum(np.searchsorted(time_s, times, side="right") - 1, 0)]
    return replace(
        load,
        time_s=times,
        busy=load.busy[at],
        waiting=load.waiting[at],
        present=load.present[at],
        watts=own,
        fleets=tuple(held[at] for held in load.fleets),
    )


def finish_time_fairness(jobs: Jobs, load: Load, end_s: Floats, devices: int, submit_s: Floats) -> Floats:
    """Completion time over that of a job which owns its share of the room: one of as many parts as jobs are present.

    With n jobs present a part has devices / n; a job that needs more of them runs slower by that ratio (Themis).
    """
    out = np.empty(len(jobs))
    present = np.maximum(load.present, 1).astype(np.float64)
    for size in np.unique(jobs.devices):
        rows = np.flatnonzero(jobs.devices == size)
        rate = np.minimum(1.0, devices / (present * size))
        done = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(load.time_s))])
        target = np.interp(submit_s[rows], load.time_s, done) + jobs.work_s[rows]
        alone = np.interp(target, done, load.time_s)
        alone = np.where(target > done[-1], load.time_s[-1] + target - done[-1], alone)
        out[rows] = (end_s[rows] - submit_s[rows]) / (alone - submit_s[rows])
    return out


def time_mean(values: Floats | Sequence[bool], load: Load) -> float:
    """Mean over time."""
    lengths = load.lengths
    total = float(lengths.sum())
    return float((np.asarray(values, np.float64) * lengths).sum() / total) if total > 0 else 0.0


def weighted_quantile(values: Floats, lengths: Floats, share: float) -> float:
    """The value that is not exceeded for that share of the time."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(lengths[order])
    return float(values[order][min(np.searchsorted(passed, share * passed[-1]), len(values) - 1)])


def time_quantile(values: Floats, load: Load, share: float) -> float:
    """The value that is not exceeded for that share of the time."""
    return weighted_quantile(values, load.lengths, share)
