"""How long jobs still take whose batches grow: by their present speed, a belief about epochs to come, or the truth.

Source: Zheng et al., NSDI 2023, section 5 (a Dirichlet belief over the batches that a job uses), in the form of its
public code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.round_policies.base import Active


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """What is known of each job's time, with devices all the time."""

    left_s: Floats
    passed_s: Floats
    """Of the epochs that are done."""
    epoch_s: Floats
    """Mean seconds of an epoch so far, the present one included."""
    done: Floats
    """Epochs."""
    epochs: Floats


def foresee(active: Active, sees: str) -> Foresight:
    """Look at all jobs.

    Args:
        active: jobs in the room.
        sees: `belief`, `ahead` (the truth) or `now` (the present batch to the end).
    """
    now = active.speed.max(axis=1)
    growth = active.growth
    done_work = active.work_s - active.left_s
    if growth is None:
        ones = np.ones(len(active))
        return Foresight(
            left_s=active.left_s / now,
            passed_s=done_work / now,
            epoch_s=active.work_s / now,
            done=done_work / active.work_s,
            epochs=ones,
        )
    phase = np.maximum((growth.trigger_s <= done_work[:, None]).sum(axis=1) - 1, 0)
    base = now / growth.speed[np.arange(len(active)), phase]
    epochs = np.maximum(np.ceil(active.work_s / growth.epoch_s - 1e-9), 1.0)
    done = np.minimum(np.floor(done_work / growth.epoch_s + 1e-9), epochs - 1)
    passed, epoch_s, belief = np.empty(len(active)), np.empty(len(active)), np.empty(len(active))
    for j in range(len(active)):
        seconds, batch = _epochs(growth.trigger_s[j], growth.speed[j], growth.batch[j], epochs[j], growth.epoch_s[j])
        seconds = seconds / base[j]
        seen = int(done[j])
        passed[j], epoch_s[j] = seconds[:seen].sum(), seconds[: seen + 1].mean()
        belief[j] = believed_s(seconds, batch, seen)
    if sees == "belief":
        left = belief
    elif sees == "ahead":
        left = _true_s(active, done_work, base)
    else:
        left = active.left_s / now
    return Foresight(left_s=left, passed_s=passed, epoch_s=epoch_s, done=done, epochs=epochs)


def _epochs(trigger: Floats, speed: Floats, batch: Floats, epochs: float, epoch_s: float) -> tuple[Floats, Ints]:
    """Seconds of each epoch at the speed of the first batch, and which batch it has."""
    begins = epoch_s * np.arange(int(epochs))
    phase = np.maximum((trigger[None, :] <= begins[:, None] + 1e-9).sum(axis=1) - 1, 0)
    _, number = np.unique(batch[phase], return_inverse=True)
    seconds: Floats = epoch_s / speed[phase]
    return seconds, number.astype(np.int64)


def believed_s(seconds: Floats, batch: Ints, seen: int) -> float:
    """Time left by a Dirichlet belief: each batch that the job uses weighs the same at first, and as it is seen."""
    count, kinds = len(seconds), int(batch.max()) + 1
    observed = np.bincount(batch[: seen + 1], minlength=kinds).astype(np.float64)
    weight = count / kinds + observed
    expected = count * weight / weight.sum()
    ahead = expected - np.minimum(observed, np.floor(expected))
    left = count - seen
    inflated = max(int(ahead.sum() + 1), left)
    mean = np.bincount(batch, seconds, minlength=kinds) / np.bincount(batch, minlength=kinds)
    return float(ahead @ mean) * left / inflated


def _true_s(active: Active, done: Floats, base: Floats) -> Floats:
    """Time left with the batches that will come."""
    growth = active.growth
    assert growth is not None
    ends = np.concatenate([growth.trigger_s[:, 1:], np.full((len(active), 1), np.inf)], axis=1)
    first = np.maximum(growth.trigger_s, done[:, None])
    last = np.minimum(ends, active.work_s[:, None])
    work = np.maximum(last - np.where(np.isfinite(first), first, np.inf), 0.0)
    total: Floats = (work / (growth.speed * base[:, None])).sum(axis=1)
    return total
