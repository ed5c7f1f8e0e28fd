"""Selective allocation: of the sub-problems of a problem the easy ones get short answers and the hard ones long ones.

A first call writes the sub-problems; each is then worked on after the others, with all of them in its prompt. Its
tokens are those of a whole attempt over the number of sub-problems, times `short` where it is easy. What that does to
accuracy is not modelled: no accuracy is stated.

Source: Xiao et al. 2025, SCALE: selective resource allocation (mathematical test-time scaling).
"""

from __future__ import annotations

import numpy as np

from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """The decomposition, then one call after another for the sub-problems."""
    questions, steps = work.questions(graph), knobs["steps"]
    right = work.attempts(work.problems)
    whole = work.answer_tokens(right)
    easy = work.random(41).random((len(questions), steps)) < knobs["easy"]
    at = questions
    if knobs["plan_tokens"]:
        at = graph.call(work.problems, context=at, output=np.full(len(at), knobs["plan_tokens"]))
    for step in range(steps):
        share = np.where(easy[:, step], knobs["short"], 1.0) / steps
        at = graph.call(work.problems, context=at, output=np.maximum(np.rint(whole * share), 1).astype(np.int64))
    return Built(ends=at)


def share_of_tokens(easy: float, short: float, plan: float = 0.0) -> float:
    """Tokens over those of long answers throughout: 1 − easy·(1 − short), and the decomposition's own share.

    Args:
        easy: share of sub-problems that are easy.
        short: tokens of an easy one over those of a hard one.
        plan: tokens of the decomposition over those of a whole long attempt.
    """
    return 1.0 - easy * (1.0 - short) + plan


STRATEGIES.add(
    "scale_selective",
    Strategy(
        id="scale_selective",
        summary="sub-problems one after another: short answers for the easy ones, long ones for the hard",
        build=build,
        knobs={
            "steps": Knob(4, 1, 100, doc="sub-problems"),
            "easy": Knob(0.6, 0.0, 1.0, doc="share of them that are easy"),
            "short": Knob(0.2, 0.0, 1.0, doc="tokens of an easy one over those of a hard one"),
            "plan_tokens": Knob(200, 0, 1_000_000, doc="tokens of the call that cuts the problem up; 0: no such call"),
        },
        samples=lambda knobs: 1.0,
        source="Xiao et al. 2025, SCALE",
    ),
)
