"""S solutions, each of which is verified by V chains of reasoning; the best by its mean verdict is answered.

A chain accepts right solutions with rate t and wrong ones with rate f. Chains on one solution err together: a
solution's own rate is a Beta law of that mean, whose correlation between two chains is `correlation`. The chosen
solution is, for independent solutions, right with Σ_v (F(v)^S − F(v − 1)^S)·g_right(v)/(g_right(v) + g_wrong(v)): v of
V chains accept it, g are the shares of right and of wrong solutions with v, F is the share with at most v; ties are
broken at random.

Source: Singhi et al. 2025 (arXiv 2504.01005), When to solve, when to verify.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.programs.choose_attempt import verdict_rates
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Solutions at once; the chains of each as soon as it ends."""
    solutions, chains = knobs["n"], knobs["verifications"] if _is_scored(knobs) else 0
    questions = work.questions(graph)
    problem = np.repeat(work.problems, solutions)
    ends = graph.call(problem, context=questions[problem], output=work.answer_tokens(work.attempts(problem)))
    if chains:
        each = np.repeat(problem, chains)
        ends = work.score_steps(graph, each, np.repeat(ends, chains))
    return Built(ends=graph.join(work.problems, after=ends.reshape(len(questions), -1)))


def success(p: Floats, knobs: Knobs, quality: Quality) -> Floats:
    """Chance that the solution with the highest mean verdict is right."""
    if not _is_scored(knobs):
        return p
    rates = verdict_rates(quality)
    return best_verified(p, knobs["n"], knobs["verifications"], rates, knobs["correlation"])


def best_verified(
    p: Floats, solutions: int, verifications: int, rates: tuple[float, float], correlation: float
) -> Floats:
    """(Q,) chance that the best verified solution is right.

    Args:
        p: (Q,) chance of one solution.
        solutions: S.
        verifications: V, of each solution.
        rates: shares of right and of wrong solutions that a chain accepts.
        correlation: of two chains' verdicts on one solution, 0 to below 1.
    """
    p = np.asarray(p, np.float64)
    right, wrong = (_accepts(verifications, rate, correlation) for rate in rates)
    good = p[..., None] * right
    each = good + (1 - p[..., None]) * wrong
    upto = np.minimum(each.cumsum(-1), 1.0)
    below = np.concatenate([np.zeros_like(upto[..., :1]), upto[..., :-1]], axis=-1)
    highest = upto**solutions - below**solutions
    share = np.divide(good, each, out=np.zeros_like(good), where=each > 0)
    found: Floats = np.clip((highest * share).sum(-1), 0.0, 1.0)
    return found


def _accepts(chains: int, rate: float, correlation: float) -> Floats:
    """(V + 1,) chance that v of V chains accept: Beta-binomial, binomial without correlation."""
    from scipy.stats import betabinom, binom

    v = np.arange(chains + 1)
    if correlation == 0 or rate in (0.0, 1.0):
        return np.asarray(binom.pmf(v, chains, rate), np.float64)
    spread = 1.0 / correlation - 1.0
    return np.asarray(betabinom.pmf(v, chains, rate * spread, (1 - rate) * spread), np.float64)


def _is_scored(knobs: Knobs) -> bool:
    return bool(knobs["n"] > 1 and knobs["verifications"] > 0)


STRATEGIES.add(
    "solve_verify",
    Strategy(
        id="solve_verify",
        summary="S solutions, each verified by V chains of reasoning; the best verified one is answered",
        build=build,
        success=success,
        knobs={
            "n": Knob(8, 1, 10_000, doc="solutions S of each problem"),
            "verifications": Knob(4, 0, 10_000, doc="chains V of each solution; 0: one solution at random"),
            "correlation": Knob(0.3, 0.0, 0.999, doc="of two chains' verdicts on one solution"),
        },
        scores=_is_scored,
        source="Singhi et al. 2025 (arXiv 2504.01005)",
    ),
)
