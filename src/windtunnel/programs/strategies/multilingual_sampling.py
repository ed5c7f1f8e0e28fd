"""Samples in parallel and one call of a judge that reads all of them and chooses.

One of the samples may be drawn greedily (a hedge against hot temperatures); systems see no difference.

Source: Khairi et al. 2025 (arXiv 2506.20544), checklisted one-pass selection.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.programs.choose_attempt import by_verifier
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Banded, Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """All samples at once, then the judge's one call with all of them in its prompt."""
    n, questions = knobs["n"], work.questions(graph)
    problem = np.repeat(work.problems, n)
    samples = graph.call(problem, context=questions[problem], output=work.answer_tokens(work.attempts(problem)))
    if n == 1:
        return Built(ends=samples)
    own = work.verifier
    judged = graph.call(
        work.problems,
        context=questions,
        joined=samples.reshape(-1, n),
        new=work.new_tokens(own.input_tokens, len(questions)),
        output=np.maximum(work.new_tokens(own.output_tokens, len(questions)), 1),
        pool=work.verifier_pool,
    )
    return Built(ends=judged)


def success(p: Floats, knobs: Knobs, quality: Quality) -> Floats | Banded:
    """As best of n by a verifier of the judge's separation."""
    return p if knobs["n"] == 1 else by_verifier(p, knobs["n"], quality)


STRATEGIES.add(
    "multilingual_sampling",
    Strategy(
        id="multilingual_sampling",
        summary="samples in parallel, of which a judge chooses one in a single call",
        build=build,
        success=success,
        knobs={"n": Knob(5, 1, 1000, doc="samples of each problem")},
        scores=lambda knobs: knobs["n"] > 1,
        source="Khairi et al. 2025 (arXiv 2506.20544)",
    ),
)
