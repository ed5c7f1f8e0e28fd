"""Samples of workers: all of them (iid), by a Dirichlet law of each class over workers, or a few classes each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.errors import BadInput, Problem
from windtunnel.learning.randomness import Draws
from windtunnel.learning.tasks.base import Task, TaskSetting

SPLITS = ("iid", "dirichlet", "labels")


@dataclass(frozen=True, slots=True)
class Shards:
    """Which samples each worker draws from."""

    samples: Ints
    """Samples, those of a worker side by side, shape (entries,)."""
    first: Ints
    """First entry of each worker, shape (workers,)."""
    sizes: Ints
    """Samples of each worker, shape (workers,)."""

    def of(self, worker: int) -> Ints:
        """Samples of one worker."""
        return self.samples[self.first[worker] : self.first[worker] + self.sizes[worker]]

    def batches(self, draws: Draws, workers: Ints, steps: Ints, batch: int) -> Ints:
        """Samples of each row's batch, drawn with replacement, shape (rows, batch)."""
        drawn = draws.integers("batch", workers, steps, batch, self.sizes[workers])
        drawn += self.first[workers][:, None]
        return self.samples[drawn]


def split(setting: TaskSetting, labels: Ints, draws: Draws) -> Shards:
    """Samples of each worker.

    `iid`: every worker draws from all samples. `dirichlet`: the samples of a class are divided over workers by a draw
    from Dirichlet(α, …, α) (Yurochkin et al. 2019). `labels`: each worker has samples of k classes (more only where
    a class would have no worker), and the workers of a class share them evenly (McMahan et al. 2017). No worker is left
    without a sample.

    Args:
        setting: Workers, and the split with its value.
        labels: Class of each sample, shape (samples,): whole numbers from 0.
        draws: Random numbers of the data, the same for all seeds of a run.

    Raises:
        BadInput: fewer samples than workers, or more classes a worker than there are.
    """
    n, classes = setting.workers, int(labels.max()) + 1
    if setting.split == "iid":
        size = len(labels)
        return Shards(np.arange(size), np.zeros(n, np.int64), np.full(n, size))
    if len(labels) < n:
        rule = f"the task has {len(labels)} samples, so a split gives at most as many workers some"
        raise BadInput(Problem(field="learning.workers", value=n, rule=rule))
    if setting.split == "dirichlet":
        owners = _by_law(labels, _dirichlet(setting.split_value, classes, n, draws), draws)
    else:
        k = int(setting.split_value)
        if k > classes:
            raise BadInput(Problem(field="learning.split.labels", value=k, rule=f"the task has {classes} classes"))
        owners = _by_law(labels, _few_labels(k, classes, n, draws), draws)
    _fill_empty(owners, n)
    order = np.argsort(owners, kind="stable")
    sizes = np.bincount(owners, minlength=n)
    return Shards(order, np.cumsum(sizes) - sizes, sizes)


def _dirichlet(alpha: float, classes: int, workers: int, draws: Draws) -> Floats:
    """Share of each class that each worker gets, shape (classes, workers); rows sum to 1."""
    from scipy.special import gammaincinv

    uniform = draws.uniforms("dirichlet", np.arange(classes), 0, workers)
    gamma = np.asarray(gammaincinv(alpha, uniform), np.float64)
    gamma[np.arange(classes), uniform.argmax(axis=1)] += np.finfo(float).tiny
    return np.asarray(gamma / gamma.sum(axis=1, keepdims=True))


def _few_labels(k: int, classes: int, workers: int, draws: Draws) -> Floats:
    """Workers take the next k classes in turn from an order drawn anew for each pass, and share them evenly."""
    passes = -(-workers * k // classes)
    turns = np.concatenate([draws.order("labels", i, classes) for i in range(passes)])[: workers * k]
    share = np.zeros((classes, workers))
    for worker, mine in enumerate(turns.reshape(workers, k)):
        share[mine, worker] = 1.0
        for again in range(k - len(set(mine.tolist()))):  # two passes met in one worker: it takes another class
            free = np.flatnonzero(share[:, worker] == 0.0)
            share[free[again % len(free)], worker] = 1.0
    for alone in np.flatnonzero(share.sum(axis=1) == 0.0):  # a class of nobody: one worker more has it
        share[alone, alone % workers] = 1.0
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def _by_law(labels: Ints, share: Floats, draws: Draws) -> Ints:
    """Worker of each sample: the samples of a class, in a drawn order, cut where the shares end."""
    owners = np.zeros(len(labels), np.int64)
    for label, law in enumerate(share):
        mine = np.flatnonzero(labels == label)
        mine = mine[draws.order("class order", label, len(mine))]
        ends = np.rint(np.cumsum(law) * len(mine)).astype(np.int64)
        owners[mine] = np.searchsorted(ends, np.arange(len(mine)), side="right").clip(0, share.shape[1] - 1)
    return owners


def _fill_empty(owners: Ints, workers: int) -> None:
    """Give each worker without samples one of the worker that has most, in place."""
    counts = np.bincount(owners, minlength=workers)
    for empty in np.flatnonzero(counts == 0):
        richest = int(counts.argmax())
        owners[np.flatnonzero(owners == richest)[-1]] = empty
        counts[richest] -= 1
        counts[empty] += 1


def sizes_of(task: Task) -> Floats | None:
    """Samples of each worker of a task, shape (workers,); None where it has no samples (quadratics)."""
    shards = getattr(task, "shards", None)
    return None if shards is None else np.asarray(shards.sizes, np.float64)
