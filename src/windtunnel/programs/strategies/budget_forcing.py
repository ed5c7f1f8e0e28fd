"""Budget forcing: an attempt's thinking is cut at a budget of tokens, or goes on where it would have ended.

A cut attempt is made to answer with what it has: it was right if it had ended, and is between wrong and as good as
ever otherwise, which is the interval. Each `wait` appends a text that keeps the model thinking for `extension` times
the tokens it has spent; what that gains is not known without measured curves: between nothing and a further attempt
with a checker.

Source: Muennighoff et al. 2025 (arXiv 2501.19393), section 3.1, budget forcing.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.population import pass_at_k
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Banded, Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob

ANSWER_TOKENS = 32
"""Of the answer that a cut attempt is made to give."""
WAIT_TOKENS = 1


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """The attempt, its further stretches of thinking, and the forced answer of those that were cut."""
    questions, cap = work.questions(graph), knobs["max_tokens"]
    right = work.attempts(work.problems)
    wanted = work.answer_tokens(right)
    spent = wanted if cap is None else np.minimum(wanted, cap)
    ends = graph.call(work.problems, context=questions, output=spent)
    for _ in range(knobs["waits"]):
        more = np.rint(wanted * knobs["extension"]).astype(np.int64)
        more = more if cap is None else np.minimum(more, cap - spent)
        on = np.flatnonzero(more > 0)
        if not len(on):
            break
        ends[on] = graph.call(on, context=ends[on], new=WAIT_TOKENS, output=more[on])
        spent = spent + np.maximum(more, 0)
    cut = np.flatnonzero(wanted > spent)
    if len(cut):
        ends[cut] = graph.call(cut, context=ends[cut], new=WAIT_TOKENS, output=np.full(len(cut), ANSWER_TOKENS))
    return Built(ends=ends)


def success(p: Floats, knobs: Knobs, quality: Quality) -> Floats | Banded:
    """Those that end within the budget, and an interval for the forced answers and for what waiting gains."""
    cap, waits = knobs["max_tokens"], knobs["waits"]
    ended = 1.0 if cap is None or quality.attempts is None else quality.attempts.finished(cap)[0]
    if ended == 1.0 and not waits:
        return p
    why = []
    if ended < 1.0:
        why.append("a cut attempt's answer is between wrong and as good as ever")
    if waits:
        why.append("what waiting gains is between nothing and a further attempt with a checker")
    low: Floats = p * ended
    return Banded(mean=0.5 * (low + p), low=low, high=pass_at_k.at_least_one(p, 1 + waits), why="; ".join(why))


STRATEGIES.add(
    "budget_forcing",
    Strategy(
        id="budget_forcing",
        summary="one attempt, cut at a budget of tokens or made to think on",
        build=build,
        success=success,
        knobs={
            "max_tokens": Knob(None, 1, 10_000_000, doc="budget of tokens; absent: none"),
            "waits": Knob(0, 0, 100, doc="times that it is made to think on"),
            "extension": Knob(0.25, 0.0, 10.0, doc="tokens of each time, over those of the attempt"),
        },
        samples=lambda knobs: 1.0,
        source="Muennighoff et al. 2025 (arXiv 2501.19393), section 3.1",
    ),
)
