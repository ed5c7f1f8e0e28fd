"""Replications of a run in several processes: run i has its own seed, so who computes it changes no bit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from windtunnel.child_processes import die_with
from windtunnel.kernel_cache import is_compiled
from windtunnel.runs.event_loop.program import Program, Replication
from windtunnel.runs.event_loop.replicate import KERNEL, Frailty, replications

WORTH_S = 5.0
"""Seconds of work below which starting processes takes longer: two of them took 3.2 CPU seconds to start."""
CHUNK_S = 0.5
"""Seconds of work that a process is given at a time."""
TRIED_S = 0.2
"""Seconds of replications that tell what one takes; the first is not counted, it loads machine code."""


def replications_in(
    processes: int, program: Program, frailty: Frailty, count: int, seed: int, *, worth_s: float = WORTH_S
) -> Iterator[Replication]:
    """`count` runs in order, the same to the last bit as `replications` gives.

    The first few are run here. The rest goes to processes where it takes longer than starting them; not where fleets of
    a spot market are drawn, which stay with the process that read their trace, and not before the loop is compiled.

    Args:
        processes: Processes at most.
        program: What is run.
        frailty: How rates differ.
        count: Replications.
        seed: Of the run.
        worth_s: Seconds of work from which on processes are started.
    """
    alone = processes <= 1 or program.draw_market is not None or not is_compiled(KERNEL)
    done, begun = 0, 0.0
    for one in replications(program, frailty, count, seed):
        yield one
        done += 1
        if done == 1:
            begun = time.perf_counter()
            continue
        spent_s = time.perf_counter() - begun
        each_s = spent_s / (done - 1)
        if not alone and spent_s > TRIED_S * min(1.0, worth_s / WORTH_S):
            if each_s * (count - done) > worth_s:
                break
            alone = True
    if done < count:
        size = max(1, min(int(CHUNK_S / each_s), -(-(count - done) // processes)))
        yield from _elsewhere(processes, program, frailty, range(done, count, size), count, seed)


def _elsewhere(
    processes: int, program: Program, frailty: Frailty, starts: range, count: int, seed: int
) -> Iterator[Replication]:
    """Chunks of runs in processes, in order; chunks of a process that died are run here."""
    chunks = [(first, min(starts.step, count - first)) for first in starts]
    pool = ProcessPoolExecutor(
        min(processes, len(chunks)), multiprocessing.get_context("spawn"), _begin, (os.getpid(),)
    )
    try:
        futures = [pool.submit(_chunk, program, frailty, seed, *chunk) for chunk in chunks]
        for chunk, future in zip(chunks, futures, strict=True):
            try:
                yield from future.result()
            except BrokenProcessPool:
                yield from _chunk(program, frailty, seed, *chunk)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)


def _chunk(program: Program, frailty: Frailty, seed: int, first: int, count: int) -> list[Replication]:
    return list(replications(program, frailty, count, seed, first=first))
