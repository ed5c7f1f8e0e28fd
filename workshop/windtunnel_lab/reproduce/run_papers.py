"""Many papers at once: one process a core, each paper in one of them, results in the order asked for.

Processes are started anew (`spawn`), so that nothing is shared but the compiled code on disk. A paper that fails is
reported with its error; the others go on.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from windtunnel_lab.reproduce import ClaimResult, run_paper
from windtunnel_lab.reproduce.settings import load

_COSTS = Path(gettempdir()) / f"windtunnel-papers-{os.getuid() if hasattr(os, 'getuid') else 0}.json"
"""File of how long papers took on this machine the last time: the longest start first."""
_UNKNOWN_S = 10.0
_SELDOM = (200_000, 20, 20)
"""Thresholds of the garbage collector: papers keep many launches, and collecting took up to half of the time."""


@dataclass(frozen=True)
class Outcome:
    """One paper that has run."""

    paper: str
    claims: tuple[ClaimResult, ...]
    seconds: float
    error: str = ""
    """Why it has no claims; empty where it ran."""
    cpu_s: float = 0.0
    """Processor seconds of its process, which do not depend on other load of the machine."""
    figure: Any = None
    """Chart, where figures were asked for."""

    @cached_property
    def title(self) -> str:
        """Title and year."""
        paper = load(f"windtunnel_lab.papers.{self.paper}")["paper"]
        return f"{paper['title']} ({paper['year']})"

    @property
    def within(self) -> int:
        """Claims inside their intervals."""
        return sum(c.within for c in self.claims)


Report = Callable[[int, int, Sequence[str]], None]
"""Called with (papers done, papers in all, papers still to come)."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped the run; `done` holds the papers that had run by then."""

    def __init__(self, done: Sequence[Outcome]) -> None:
        super().__init__()
        self.done = tuple(done)


def run_papers(
    papers: Sequence[str], *, jobs: int = 1, report: Report = lambda *_: None, figures: bool = False
) -> list[Outcome]:
    """Run papers and return their outcomes in the order given.

    Args:
        papers: folders.
        jobs: processes; 1 runs them here.
        report: called whenever a paper is done.
        figures: also draw each paper's figure, in the process that ran it, where its simulations are still cached.

    Raises:
        Interrupted: by Ctrl-C; all processes have ended.
    """
    took = _took()
    order = sorted(papers, key=lambda paper: -took.get(paper, _UNKNOWN_S))
    waiting = list(order)
    done: dict[str, Outcome] = {}
    report(0, len(papers), waiting)
    try:
        for outcome in _each(order, min(jobs, len(papers)), figures):
            done[outcome.paper] = outcome
            waiting.remove(outcome.paper)
            report(len(done), len(papers), waiting)
    except KeyboardInterrupt as stop:
        raise Interrupted([done[paper] for paper in papers if paper in done]) from stop
    _remember(took | {paper: one.cpu_s for paper, one in done.items() if not one.error})
    return [done[paper] for paper in papers]


def _each(papers: Sequence[str], jobs: int, figures: bool) -> Iterator[Outcome]:
    one = partial(run_one, figure=figures)
    if jobs <= 1:
        yield from map(one, papers)
        return
    with get_context("spawn").Pool(jobs, initializer=_quiet) as pool:  # leaving it ends the processes
        yield from pool.imap_unordered(one, papers)


def _quiet() -> None:
    """Ignore Ctrl-C, which the parent process handles, and end with the parent however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_one(paper: str, *, figure: bool = False) -> Outcome:
    """Run one paper; an exception becomes its error, and its claims stay where only its figure fails."""
    begun, worked = time.perf_counter(), time.process_time()
    every = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    claims: tuple[ClaimResult, ...] = ()
    error, shown = "", None
    try:
        claims = tuple(run_paper(paper))
        if figure:
            from windtunnel_lab.reproduce.figures import drawn

            shown = drawn(paper, claims)
    except Exception as problem:
        error = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
    finally:
        gc.set_threshold(*every)
    return Outcome(paper, claims, time.perf_counter() - begun, error, time.process_time() - worked, shown)


def _took() -> dict[str, float]:
    try:
        found = json.loads(_COSTS.read_text("utf-8"))
        return {str(paper): float(seconds) for paper, seconds in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _remember(took: dict[str, float]) -> None:
    try:
        _COSTS.write_text(json.dumps(took), "utf-8")
    except OSError:
        return
