"""Parallel threads: a parent forks children that share its context, joins their text and goes on.

A client drives an engine as it is: each thread is a request whose prompt is the parent's text (which the prefix cache
has), and the parent's next request holds the text of all threads, whose KV is computed again unless `reuse` is set. One
thread equals serial generation with a prefill at the join.

Source: ThreadWeaver (Lian et al. 2025), orchestrated threads on an unchanged engine; its rows keep accuracy within
1.5 points of serial answers on the three tasks that are public, which is the interval here.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.programs.forks import KNOBS, Fork, forked
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Banded, Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob

BAND = 0.015


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """One answer of each problem."""
    right = work.attempts(work.problems)
    return Built(ends=forked(graph, work, work.answer_tokens(right), Fork(**knobs)), right=right)


def success(p: Floats, knobs: Knobs, quality: Quality) -> Banded:
    """As one attempt."""
    return Banded(
        mean=p,
        low=np.clip(p - BAND, 0, 1),
        high=np.clip(p + BAND, 0, 1),
        why="threads answer as serial text does, within 1.5 points (ThreadWeaver's rows)",
    )


STRATEGIES.add(
    "threads",
    Strategy(
        id="threads",
        summary="one answer with parallel blocks: forked from the parent's context, joined as text",
        build=build,
        success=success,
        knobs={**KNOBS, "reuse": Knob(False, doc="take over the KV of threads at joins")},
        samples=lambda _: 1,
        source="Lian et al. 2025, ThreadWeaver (arXiv 2512.07843)",
    ),
)
