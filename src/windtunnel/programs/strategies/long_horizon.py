"""Long-horizon sessions: thousands of turns over a history that is summed up before it outgrows a window.

A turn is a call and its tools, as of a coding agent. Where the history and what the tools returned would not fit into
the window, a call reads both and writes a summary; the next turn begins anew from the first prompt and the summary, so
that the first prompt is still cached and the summary is not.

Source: Ge et al. 2026, Synthetic Computers at Scale (arXiv 2604.28181): 1,000 runs of more than 2,000 turns and more
than 8 hours. How its histories are kept short is not stated in the abstract; summaries are what agents of that length
do. What a run achieves is not known: accuracy is not stated.
"""

from __future__ import annotations

import numpy as np

from windtunnel.errors import ProblemList
from windtunnel.programs.sessions import side_by_side, spread
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Turns of all sessions, one after the other."""
    problems, cv = work.problems, knobs["cv"]
    first = graph.text(problems, knobs["first_tokens"], context=work.questions(graph))
    ends = graph.call(problems, context=first, output=spread(work, knobs["output_tokens"], cv, len(problems)))
    for _ in range(1, knobs["turns"]):
        after = side_by_side(graph, work, "files", knobs["tools"], ends)
        new = spread(work, knobs["result_tokens"], cv, len(problems))
        output = spread(work, knobs["output_tokens"], cv, len(problems))
        context, wait = ends.copy(), after
        if knobs["window"]:
            full = np.flatnonzero(graph["answer"][ends] + new + output > knobs["window"])
            if len(full):
                summed = graph.call(
                    full, context=ends[full], new=new[full], output=knobs["summary_tokens"], after=after[full]
                )
                context[full], new[full] = first[full], knobs["summary_tokens"]
                wait = np.concatenate([after, np.full((len(problems), 1), NONE, np.int64)], axis=1)
                wait[full] = NONE
                wait[full, -1] = summed
        ends = graph.call(problems, context=context, new=new, output=output, after=wait)
    return Built(ends=ends)


def check(knobs: Knobs, problems: ProblemList, field: str) -> None:
    """A window must hold what a history begins anew with."""
    own = ("first_tokens", "summary_tokens", "result_tokens", "output_tokens")
    least = sum(knobs[name] for name in own)
    if 0 < knobs["window"] < 2 * least:
        rule = f"must be 0 or at least {2 * least:,.0f}, twice what a history begins anew with: {', '.join(own)}"
        problems.add(f"{field}.window", knobs["window"], rule)


STRATEGIES.add(
    "long_horizon",
    Strategy(
        id="long_horizon",
        summary="sessions of thousands of turns, whose history is summed up before it outgrows a window",
        build=build,
        check=check,
        knobs={
            "turns": Knob(2000, 1, 100_000, doc="turns of a session"),
            "first_tokens": Knob(8000, 1, 10**7, doc="tokens of instructions and tools"),
            "result_tokens": Knob(900.0, 1.0, 1e7, doc="mean tokens that tools return in a turn"),
            "output_tokens": Knob(350.0, 1.0, 1e7, doc="mean tokens of a turn's answer"),
            "cv": Knob(1.0, 0.0, 10.0, doc="standard deviation over mean of both"),
            "tools": Knob(1.2, 1.0, 1000.0, doc="mean tools of a turn"),
            "window": Knob(100_000, 0, 10**8, doc="tokens that a history may grow to; 0: without end"),
            "summary_tokens": Knob(2000, 1, 10**6, doc="tokens of a summary"),
        },
        tools=("files",),
        samples=lambda _: 1,
        source="Ge et al. 2026 (arXiv 2604.28181)",
    ),
)
