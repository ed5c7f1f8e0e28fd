"""Sessions of many steps: numbers spread around a mean, and tools that run side by side after a step."""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.specs.lengths import Lengths

CALLS = 45
"""Stream of random numbers: how many tools a step calls."""


def spread(work: Workload, mean: float, cv: float, count: int) -> Ints:
    """(count,) whole numbers from 1, lognormal with a mean and a coefficient of variation."""
    law = Lengths(distribution="lognormal", mean=mean, cv=cv) if cv > 0 and mean > 0 else round(mean)
    return np.maximum(work.new_tokens(law, count), 1)


def side_by_side(graph: ProgramGraph, work: Workload, tool: str, mean: float, calls: Ints) -> Ints:
    """(B, K) tools that run side by side after (B,) calls; at least one, −1 where there are fewer than K.

    Args:
        graph: gets the nodes.
        work: the problems.
        tool: of `programs.tools`.
        mean: tools after a call.
        calls: that they wait for.
    """
    count = len(calls)
    several = 1 + work.random(CALLS).poisson(max(mean - 1, 0.0), count)
    out = np.full((count, int(several.max(initial=1))), NONE, np.int64)
    program = graph["program"][calls]
    for k in range(out.shape[1]):
        own = np.flatnonzero(several > k)
        out[own, k] = graph.tool(
            program[own],
            seconds=work.tool_seconds(tool, len(own)),
            after=calls[own],
            server=work.tool_class(tool),
        )
    return out
