"""Best of n: n independent attempts in parallel, of which one is chosen.

The choice: by a verifier's highest score, by a verifier's scores summed over equal answers, by the most frequent
answer, by a checker that knows right from wrong (unit tests, a proof checker), or at random.

Source: Cobbe et al. 2021 (arXiv 2110.14168), best of n by a verifier; Wang et al. 2022 (arXiv 2203.11171), majority;
Brown et al. 2024 (arXiv 2407.21787), coverage, which is the perfect checker's share.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.programs.choose_attempt import SELECTORS, chosen, is_scored
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Banded, Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """All attempts go on from the problem's text; scores, where they are asked for, follow each attempt."""
    n, questions = knobs["n"], work.questions(graph)
    problem = np.repeat(work.problems, n)
    right = work.attempts(problem)
    attempts = graph.call(problem, context=questions[problem], output=work.answer_tokens(right))
    if is_scored(n, knobs["selector"]):
        attempts = work.score(graph, problem, questions[problem], attempts)
    return Built(ends=graph.join(work.problems, after=attempts.reshape(-1, n)))


def success(p: Floats, knobs: Knobs, quality: Quality) -> Floats | Banded:
    """Chance that the chosen attempt is right."""
    return chosen(p, knobs["n"], knobs["selector"], quality)


STRATEGIES.add(
    "best_of_n",
    Strategy(
        id="best_of_n",
        summary="n attempts in parallel; a verifier, a vote or a checker chooses",
        build=build,
        success=success,
        knobs={
            "n": Knob(16, 1, 100_000, doc="attempts at each problem"),
            "selector": Knob("majority", choices=SELECTORS, doc="who chooses among the attempts"),
        },
        scores=lambda knobs: is_scored(knobs["n"], knobs["selector"]),
        source="Cobbe et al. 2021 (arXiv 2110.14168); Wang et al. 2022 (arXiv 2203.11171)",
    ),
)
