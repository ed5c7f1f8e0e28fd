"""Feeds that rows of nodes share, in the loop over jobs: what jobs draw and how fast they are at each clock.

One manager a row reads its watts whenever they change, locks clocks out of band, one command at a time, low priority
first, and a brake slows all of the row where its feed's limit is passed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.event_loop.records import NEVER

FULL, FIRST, SECOND, BRAKE = range(4)
"""Clocks: none locked, that of the first threshold, that of the second, that of the brake."""
CLOCKS = 4
RESOLUTION_W = 2.0**-10
"""Watts are whole multiples of this, so that sums do not depend on their order."""


class Feeds(NamedTuple):
    """Rows, jobs and rules as the loop reads them. No row: nothing is capped."""

    row_of: Ints
    """Of each node."""
    limit_w: Floats
    """Of each row's feed."""
    idle_w: Floats
    """Of each row without a job."""
    mean_w: Floats
    """(n, CLOCKS) of a job's device above idle, mean of its steps."""
    peak_w: Floats
    """(n, CLOCKS) the same while it computes: what a row's reading shows."""
    speed: Floats
    """(n, CLOCKS) over that at the full clock."""
    high: Ints
    """1 of a job of high priority."""
    fleet: Ints
    """Of each job that is a replica; −1 of others."""
    fleet_w: Floats
    """(fleets, hours, CLOCKS) of a replica's device above idle, by hour from `begin_s`."""
    begin_s: float
    first: float
    second: float
    """Shares of a limit above which clocks of low priority go to FIRST and SECOND; above the second one those of high
    priority go to FIRST too where that has not helped."""
    release: float
    """How far below its threshold a row has to fall before a lock is taken back."""
    delay_s: float
    """Until a command acts."""
    brake_s: float
    """From the limit being passed to the brake."""
    caps: bool
    """Whether clocks are locked at all; the brake is there anyway."""


class FeedState(NamedTuple):
    """What changes in each row."""

    mean_w: Floats
    peak_w: Floats
    was_mean_w: Floats
    """When they were last summed up."""
    was_peak_w: Floats
    low: Ints
    """Clock that acts on low priority."""
    high: Ints
    next_low: Ints
    """Of the command that is under way."""
    next_high: Ints
    acts_at: Floats
    """When it acts; NEVER: none is under way."""
    over_since: Floats
    """Since when the limit is passed; NEVER: it is not."""
    braked: Ints
    released_at: Floats
    """When the brake's release acts; NEVER: none was told."""
    brakes: Ints
    """Times that the brake came."""
    changed: Ints
    """1 of a row whose line of the log has to be written."""
    at: Ints
    """Lines of the log."""


class PowerLog(NamedTuple):
    """A row's watts and clocks from a moment on."""

    time_s: Floats
    row: Ints
    mean_w: Floats
    peak_w: Floats
    low: Ints
    high: Ints


NO_FEEDS = Feeds(
    row_of=np.zeros(0, np.int64),
    limit_w=np.zeros(0),
    idle_w=np.zeros(0),
    mean_w=np.zeros((0, CLOCKS)),
    peak_w=np.zeros((0, CLOCKS)),
    speed=np.zeros((0, CLOCKS)),
    high=np.zeros(0, np.int64),
    fleet=np.zeros(0, np.int64),
    fleet_w=np.zeros((0, 0, CLOCKS)),
    begin_s=0.0,
    first=0.8,
    second=0.89,
    release=0.05,
    delay_s=40.0,
    brake_s=5.0,
    caps=True,
)


def new_feed_state(feeds: Feeds) -> FeedState:
    """Nothing runs, nothing is locked."""
    rows = len(feeds.limit_w)

    def ints() -> Ints:
        return np.zeros(rows, np.int64)

    def never() -> Floats:
        return np.full(rows, NEVER)

    return FeedState(
        mean_w=np.full(rows, -1.0),
        peak_w=np.full(rows, -1.0),
        was_mean_w=np.full(rows, -1.0),
        was_peak_w=np.full(rows, -1.0),
        low=ints(),
        high=ints(),
        next_low=ints(),
        next_high=ints(),
        acts_at=never(),
        over_since=never(),
        braked=ints(),
        released_at=never(),
        brakes=ints(),
        changed=ints(),
        at=np.zeros(1, np.int64),
    )


def new_log(length: int) -> PowerLog:
    """Room for that many lines."""
    return PowerLog(
        np.zeros(length),
        np.zeros(length, np.int64),
        np.zeros(length),
        np.zeros(length),
        np.zeros(length, np.int64),
        np.zeros(length, np.int64),
    )
