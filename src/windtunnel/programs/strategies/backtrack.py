"""A budget of tokens as one chain that backtracks, or as n chains of an equal part each with a checker.

A chain is cut at its part of the budget: those that have not ended by then are wrong. With n = 1 it is one long chain;
a checker takes the right one of several. Whether the model's chains backtrack is in its lengths: what a long chain
finds, short ones must find before their cut.

Source: Qin et al. 2025 (arXiv 2504.07052), section 3: equal budgets of tokens.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population import pass_at_k
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """N chains at once, each cut at its part."""
    n, questions = knobs["n"], work.questions(graph)
    problem = np.repeat(work.problems, n)
    tokens = np.minimum(work.answer_tokens(work.attempts(problem)), _part(knobs))
    chains = graph.call(problem, context=questions[problem], output=tokens)
    return Built(ends=graph.join(work.problems, after=chains.reshape(-1, n)))


def success(p: Floats, knobs: Knobs, quality: Quality) -> Floats:
    """1 − (1 − p·F)^n, where F is the share of right chains that end within their part."""
    ended = 1.0 if quality.attempts is None else quality.attempts.finished(_part(knobs))[0]
    return pass_at_k.at_least_one(p * ended, knobs["n"])


def _part(knobs: Knobs) -> int:
    return max(int(knobs["budget"] // knobs["n"]), 1)


STRATEGIES.add(
    "backtrack",
    Strategy(
        id="backtrack",
        summary="a budget of tokens as one long chain that backtracks, or as n shorter ones with a checker",
        build=build,
        success=success,
        knobs={
            "n": Knob(1, 1, 100_000, doc="chains that share the budget"),
            "budget": Knob(16_384, 1, 1_000_000_000, doc="tokens of a problem"),
        },
        source="Qin et al. 2025 (arXiv 2504.07052), section 3",
    ),
)
