"""A coding agent: one growing history over many steps, with tools between them.

A session begins with a long prompt (instructions, tools, files) and adds an answer and the tools' results at each step,
so that nearly all of a prompt was there before. The pause while tools run decides, with `programs.pause` and `hold_s`,
whether it is still cached.

Source: TraceLab's 4,265 sessions of coding agents in use: 84 steps a session, 154,000 prompt tokens and 523 generated
tokens a step, 1.2 tools a step (page of the project, 2026). The defaults give these means; how much of a session's
first prompt is there at its start is not published. Whether a task is solved is not known: accuracy is not stated.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.programs.sessions import side_by_side, spread
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Steps of all sessions, one after the other; sessions of fewer steps end earlier."""
    steps = spread(work, knobs["steps"], knobs["steps_cv"], len(work.problems))
    questions = work.questions(graph)
    context = graph.text(work.problems, knobs["first_tokens"], context=questions)
    ends, on = np.full(len(steps), NONE, np.int64), work.problems
    after: Ints | None = None
    for step in range(int(steps.max(initial=0))):
        on = np.flatnonzero(steps > step)
        if step:
            after = side_by_side(graph, work, "sandbox", knobs["tools"], ends[on])
        ends[on] = graph.call(
            on,
            context=context[on] if step == 0 else ends[on],
            new=0 if step == 0 else spread(work, knobs["step_tokens"], knobs["cv"], len(on)),
            output=spread(work, knobs["output_tokens"], knobs["cv"], len(on)),
            after=after,
        )
    return Built(ends=ends)


STRATEGIES.add(
    "coding_agent",
    Strategy(
        id="coding_agent",
        summary="sessions of many steps over one growing history, with tools between steps",
        build=build,
        knobs={
            "steps": Knob(84.0, 1.0, 1e5, doc="mean steps of a session"),
            "steps_cv": Knob(0.0, 0.0, 10.0, doc="standard deviation over mean of them"),
            "first_tokens": Knob(20_000, 1, 10**7, doc="tokens of the first prompt"),
            "step_tokens": Knob(2706.0, 0.0, 1e7, doc="mean tokens that tools and the user add in a step"),
            "output_tokens": Knob(523.0, 1.0, 1e7, doc="mean tokens of a step's answer"),
            "cv": Knob(1.0, 0.0, 10.0, doc="standard deviation over mean of both"),
            "tools": Knob(1.2, 1.0, 1000.0, doc="mean tools of a step"),
        },
        tools=("sandbox",),
        samples=lambda _: 1,
        source="TraceLab, coding agents in use (project page, 2026)",
    ),
)
