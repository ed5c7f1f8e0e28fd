"""Revision: an attempt, then up to so many further ones, each of which reads those before and what tests said of them.

A checker ends it as soon as an attempt is right. A further attempt after feedback is worth κ fresh ones
(`population.revision`): κ is fitted on aider's two attempts, or stated; it is an interval elsewhere. Tests take the
seconds of `programs.tools.tests` where the scenario has that tool, and their output is the tool's `result_tokens`.

Source: Madaan et al. 2023 (arXiv 2303.17651), iterative refinement; Chen et al. 2023 (arXiv 2304.05128), with tests.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.population import revision
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Banded, Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob

TESTS = "tests"
LEVEL = 1.645
"""Standard deviations to the ends of an interval of 90 %."""


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Outcomes are drawn: a problem leaves when an attempt is right."""
    own = work.spec.tools.get(TESTS)
    questions = work.questions(graph)
    ends, open_ = np.full(len(questions), NONE), work.problems
    context = questions.copy()
    right_at_end: Mask = np.zeros(len(questions), np.bool_)
    after = np.full(len(questions), NONE)
    draws = work.random(40)
    for at in range(1 + knobs["rounds"]):
        chance = work.p[open_] if at == 0 else revision.gain(work.p[open_], _worth(knobs).worth)
        right = work.attempts(open_) if at == 0 else draws.random(len(open_)) < chance
        new = work.new_tokens(own.result_tokens, len(open_)) if own is not None and at else 0
        context[open_] = graph.call(
            open_, context=context[open_], new=new, output=work.answer_tokens(right), after=after[open_]
        )
        ends[open_] = context[open_]
        if own is not None and knobs["rounds"]:
            seconds = work.tool_seconds(TESTS, len(open_))
            ends[open_] = graph.tool(open_, seconds=seconds, after=context[open_], server=work.tool_class(TESTS))
        after[open_] = ends[open_]
        right_at_end[open_] = right
        open_ = open_[~right]
        if not len(open_):
            break
    return Built(ends=ends, right=right_at_end)


def success(p: Floats, knobs: Knobs, quality: Quality) -> Floats | Banded:
    """1 − (1 − p)^(1 + κ·rounds), with an interval for κ unless it is stated."""
    rounds = knobs["rounds"]
    if rounds == 0:
        return p
    feedback = _worth(knobs)
    if feedback.log_sd == 0:
        return revision.with_revisions(p, rounds, feedback.worth)
    spread = np.exp(LEVEL * feedback.log_sd)
    known = "fitted on aider's second attempts" if _task_is_known(knobs) else "not known for this task: state worth"
    return Banded(
        mean=revision.with_revisions(p, rounds, feedback.worth),
        low=revision.with_revisions(p, rounds, feedback.worth / spread),
        high=revision.with_revisions(p, rounds, feedback.worth * spread),
        why=f"what feedback is worth is {known}",
    )


def _worth(knobs: Knobs) -> revision.Feedback:
    if knobs["worth"] is not None:
        return revision.Feedback(float(knobs["worth"]), 0.0, 0)
    return revision.feedback_for(knobs["task"])[0]


def _task_is_known(knobs: Knobs) -> bool:
    return revision.feedback_for(knobs["task"])[1]


STRATEGIES.add(
    "revision",
    Strategy(
        id="revision",
        summary="an attempt and rounds of revision, each after the output of tests",
        build=build,
        success=success,
        knobs={
            "rounds": Knob(1, 0, 1000, doc="attempts after feedback, at most"),
            "worth": Knob(None, 0.0, 1000.0, doc="fresh attempts that one after feedback is worth; absent: by task"),
            "task": Knob("", choices=("", *revision.FITTED), doc="task whose fitted worth is taken; empty: a band"),
        },
        samples=lambda knobs: 1.0 + knobs["rounds"],
        source="Madaan et al. 2023 (arXiv 2303.17651); Chen et al. 2023 (arXiv 2304.05128)",
    ),
)
