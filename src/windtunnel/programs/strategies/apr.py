"""Adaptive parallel reasoning: a parent that may spawn children with contexts of their own and joins short results.

A child begins with the problem and what the parent hands it, not with the parent's text; only its result comes back.
Contexts stay short and all tokens together become more. How many children a problem gets is drawn (Poisson).

Source: Pan et al. 2025, Adaptive Parallel Reasoning (arXiv 2504.15466), section 3. Its accuracy is measured on its own
task (papers/apr) and not stated for others.
"""

from __future__ import annotations

import numpy as np

from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.specs.lengths import Lengths
from windtunnel.techniques.base import Knob

CHILDREN, TOKENS = 42, 43
"""Streams of random numbers."""


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Parent, children side by side, parent again; a problem without children has one call."""
    count, questions = len(work.problems), work.questions(graph)
    children = work.random(CHILDREN).poisson(knobs["children"], count)
    own = _lengths(work, knobs["parent_tokens"], knobs["cv"], count)
    before = np.where(children > 0, np.maximum(own // 2, 1), own)
    parent = graph.call(work.problems, context=questions, output=before)
    most = int(children.max(initial=0))
    spawned = np.full((count, most), NONE, np.int64)
    for w in range(most):
        on = np.flatnonzero(children > w)
        spawned[on, w] = graph.call(
            work.problems[on],
            context=questions[on],
            new=knobs["spawn_tokens"],
            output=_lengths(work, knobs["child_tokens"], knobs["cv"], len(on)),
            after=parent[on],
        )
    ends = parent.copy()
    on = np.flatnonzero(children > 0)
    if on.size:
        ends[on] = graph.call(
            work.problems[on],
            context=parent[on],
            new=knobs["return_tokens"] * children[on],
            output=np.maximum(own[on] - before[on], 1),
            after=spawned[on],
        )
    return Built(ends=ends)


def _lengths(work: Workload, mean: float, cv: float, count: int) -> np.ndarray:
    law = Lengths(distribution="lognormal", mean=mean, cv=cv) if cv > 0 and mean > 0 else round(mean)
    return np.maximum(work.new_tokens(law, count), 1)


STRATEGIES.add(
    "apr",
    Strategy(
        id="apr",
        summary="a parent spawns children with contexts of their own and joins their short results",
        build=build,
        knobs={
            "children": Knob(6.1, 0.0, 1000.0, doc="mean threads of a problem"),
            "child_tokens": Knob(1471.0, 1.0, 1e7, doc="mean tokens of a child"),
            "parent_tokens": Knob(1471.0, 1.0, 1e7, doc="mean tokens of the parent"),
            "cv": Knob(0.3, 0.0, 10.0, doc="standard deviation over mean of both"),
            "spawn_tokens": Knob(100, 0, 10**6, doc="tokens that the parent hands to a child"),
            "return_tokens": Knob(50, 0, 10**6, doc="tokens of a child's result"),
        },
        samples=lambda _: 1,
        source="Pan et al. 2025 (arXiv 2504.15466)",
    ),
)
