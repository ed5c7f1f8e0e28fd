"""The first attempt that a verifier accepts: in parallel, the others being cancelled, or one attempt after another.

A verifier accepts right answers with rate t and wrong ones with rate f (`programs.verifier.true_accept`,
`false_accept`); where only scores are known, those above the middle of their two means pass. Where n attempts are all
rejected, one of them is answered. A checker (unit tests, a proof checker) takes no time and makes no error.

In parallel the first to end of the accepted ones counts; that short answers end first is not in its chance to be right.

Source: Brown et al. 2024 (arXiv 2407.21787), section 4, verifiers; Setlur et al. 2025 (arXiv 2502.12118), section 2.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.population.checker import first_accepted
from windtunnel.programs.choose_attempt import verdict_rates
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Verdicts are drawn with the attempts; which accepted one is first, the time decides."""
    return _parallel(graph, work, knobs) if knobs["order"] == "parallel" else _one_after_another(graph, work, knobs)


def success(p: Floats, knobs: Knobs, quality: Quality) -> Floats:
    """t·p/α·(1 − (1 − α)^n) + (1 − α)^(n−1)·(1 − t)·p with α = t·p + f·(1 − p); p where n is 1."""
    return first_accepted(p, *_rates(knobs, quality), knobs["n"])


def _rates(knobs: Knobs, quality: Quality) -> tuple[float, float]:
    return (1.0, 0.0) if knobs["by"] == "checker" else verdict_rates(quality)


def _is_scored(knobs: Knobs) -> bool:
    return bool(knobs["by"] == "verifier" and knobs["n"] > 1)


def _parallel(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    n, questions = knobs["n"], work.questions(graph)
    problem = np.repeat(work.problems, n)
    right = work.attempts(problem)
    accepted = work.verdicts(right, _rates(knobs, work.quality)).reshape(-1, n)
    attempts = graph.call(problem, context=questions[problem], output=work.answer_tokens(right)).reshape(-1, n)
    checked = attempts
    if _is_scored(knobs):
        checked = work.score(graph, problem, questions[problem], attempts.ravel()).reshape(-1, n)
    some: Mask = np.any(accepted, axis=1).reshape(-1)
    waits = np.where(accepted | ~some[:, None], checked, NONE)
    needs = np.where(some, 1, n)
    return Built(ends=graph.join(work.problems, after=waits, needs=needs, cancels=(attempts[:, 0], checked[:, -1])))


def _one_after_another(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    questions = work.questions(graph)
    ends = np.full(len(questions), NONE)
    right_at_end: Mask = np.zeros(len(questions), np.bool_)
    open_ = work.problems
    for at in range(knobs["n"]):
        if not len(open_):
            break
        right = work.attempts(open_)
        attempts = graph.call(open_, context=questions[open_], output=work.answer_tokens(right), after=ends[open_])
        accepted = work.verdicts(right, _rates(knobs, work.quality))
        last = at == knobs["n"] - 1
        scored = _is_scored(knobs) and not last
        ends[open_] = work.score(graph, open_, questions[open_], attempts) if scored else attempts
        right_at_end[open_] = right
        open_ = open_[~accepted]
    return Built(ends=ends, right=right_at_end)


STRATEGIES.add(
    "first_accept",
    Strategy(
        id="first_accept",
        summary="the first attempt that a verifier accepts: in parallel with the rest cancelled, or one after another",
        build=build,
        success=success,
        knobs={
            "n": Knob(16, 1, 10_000, doc="attempts at most"),
            "order": Knob("parallel", choices=("parallel", "sequential"), doc="all at once, or one after another"),
            "by": Knob("verifier", choices=("verifier", "checker"), doc="who accepts: with errors, or without"),
        },
        scores=_is_scored,
        source="Brown et al. 2024 (arXiv 2407.21787), section 4",
    ),
)
