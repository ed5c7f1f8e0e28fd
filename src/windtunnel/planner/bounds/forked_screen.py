"""Two processes for one screen: a copy of this process fills half of shared arrays while this one fills the rest."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.planner.space.candidates import Candidates

BYSTANDER = "windtunnel progress"
"""Name of a thread that holds nothing which a copy of the process needs."""
WORTH = 200_000
"""Candidates below which a second process costs more than it saves (a copy of the process, its own compiled code)."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection: screening keeps what it allocates; collecting would take 20 % of its time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def frozen_gc() -> Iterator[None]:
    """Exempt all present objects from garbage collection: blocks and bounds stay for the whole search."""
    mine = not gc.get_freeze_count()
    if mine:
        gc.freeze()
    try:
        yield
    finally:
        if mine:
            gc.unfreeze()


def can_copy() -> bool:
    """Whether this process may be copied: two cores, a system that can, and no other thread that could hold a lock.

    The thread that draws progress may: a copy neither draws nor prints.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    others = sum(t.name != BYSTANDER for t in threading.enumerate()) - 1
    return hasattr(os, "fork") and cores > 1 and others == 0


def split_in_two(candidates: Candidates) -> tuple[Ints, Ints]:
    """Split layouts in two groups of about as many candidates, which share no way to cut a tensor."""
    weight = candidates.legal.sum(axis=1)
    cut = np.stack([candidates.tp, candidates.mbs]) if len(set(candidates.tp.tolist())) < 4 else candidates.tp[None]
    kinds, of = np.unique(cut, axis=1, return_inverse=True)
    of = of.reshape(-1)
    load = np.bincount(of, weights=weight, minlength=kinds.shape[1])
    sums, second = [0.0, 0.0], np.zeros(len(of), np.bool_)
    for kind in np.argsort(-load).tolist():
        lighter = int(sums[1] < sums[0])
        sums[lighter] += float(load[kind])
        second[of == kind] = lighter == 1
    return np.flatnonzero(~second), np.flatnonzero(second)


def shared(shape: tuple[int, ...]) -> Floats:
    """An array that copies of this process write to as well."""
    size = int(np.prod(shape))
    return np.frombuffer(mmap.mmap(-1, max(size, 1) * 8), np.float64, count=size).reshape(shape)


def fill_in_two_processes(fill: Callable[[Ints], None], first: Ints, second: Ints) -> None:
    """Run `fill` on two groups of layouts, the second in a copy of this process; if the copy fails, in this one."""
    child = os.fork()
    if not child:
        done = 1
        try:
            fill(second)
            done = 0
        finally:
            os._exit(done)
    try:
        fill(first)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    if os.waitpid(child, 0)[1]:
        fill(second)
