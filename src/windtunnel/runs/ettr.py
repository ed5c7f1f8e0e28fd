"""Effective training time ratio, by the conventions of those who publish it.

Productive is work that was kept, at the speed at which it was done; conventions differ in what else counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from windtunnel.arrays import Floats

HOUR_S = 3600.0
_STEPS_AN_HOUR = 12


def conventions(seconds: Mapping[str, float]) -> dict[str, float]:
    """ETTR by convention, of mean seconds by class.

    `productive` is work at the undisturbed speed over wall time; `without_queueing` leaves out waiting and scheduling;
    `steps_running` counts any time in which steps or saves run. `rsc` and `rsc_without_queueing`: productive time over
    wall time, with and without the queue (Kokolis et al. 2024, arXiv 2410.21680, section 4). `google_goodput`: time in
    steps that were kept over elapsed time (ml-goodput-measurement). `byterobust_cumulative`: what is left of wall time
    without incidents: detection, diagnosis, failover, loading, lost work (Wan et al. 2025, arXiv 2509.16293).
    """
    wall = sum(seconds.values())
    kept = seconds["work"] + seconds["degraded"] + seconds["straggler"]
    running = kept + seconds["lost_progress"] + seconds["save"]
    queued = seconds["wait_for_nodes"] + seconds["schedule"]
    scheduled = wall - queued
    return {
        "productive": seconds["work"] / wall,
        "without_queueing": seconds["work"] / scheduled if scheduled > 0 else 0.0,
        "steps_running": running / wall,
        "rsc": kept / wall,
        "rsc_without_queueing": kept / scheduled if scheduled > 0 else 0.0,
        "google_goodput": kept / wall,
        "byterobust_cumulative": (kept + seconds["save"]) / wall,
    }


def sliding(stops: Floats, wall_s: float, *, window_s: float = HOUR_S) -> dict[str, float]:
    """ETTR of windows that slide over one run, as ByteRobust plots it: mean, 10th percentile and least.

    A stop is unproductive from its first second to the next step; before it, so is the time in which the work was
    done that it lost, taken at the speed of the undisturbed step.

    Args:
        stops: Rows as `Replication.stops` has them.
        wall_s: Of the run.
        window_s: Length of a window.
    """
    window_s = min(window_s, wall_s)
    begin, end = stops[:, 0] - stops[:, 2], stops[:, 0] + stops[:, 3]
    # what was lost before an earlier stop ended was lost by that stop already
    begin = np.maximum(begin, np.append(0.0, np.maximum.accumulate(end)[:-1])) if len(begin) else begin
    edges = np.concatenate([[0.0], np.stack([begin, np.maximum(end, begin)], 1).ravel()])
    idle = np.concatenate([[0.0], np.cumsum(np.stack([np.zeros(len(begin)), np.maximum(end - begin, 0.0)], 1).ravel())])
    starts = np.arange(0.0, wall_s - window_s + 1e-9, window_s / _STEPS_AN_HOUR)
    lost = np.interp(starts + window_s, edges, idle) - np.interp(starts, edges, idle)
    share = np.clip(1.0 - lost / window_s, 0.0, 1.0)
    return {
        "byterobust_sliding_mean": float(share.mean()),
        "byterobust_sliding_p10": float(np.percentile(share, 10)),
        "byterobust_sliding_least": float(share.min()),
    }
