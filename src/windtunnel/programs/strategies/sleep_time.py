"""Sleep-time compute: what is worked out about a context before anyone asks, shared by the queries on it.

While devices are idle a model thinks about a context and writes what it found; queries that come later hold that text
(once in the prefix cache for all of them) and need a share of the tokens. The sleep calls are served by themselves and
priced at a share of the price (`off_peak_price`), and each query bears its part of them.

Source: Lin et al. 2025, Sleep-time compute (arXiv 2504.13171), section 3. `query_share` is what keeps accuracy as it is
(a fifth on their tasks), so a query ends right as often as one attempt.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.programs.quality import Quality
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, OffPeak, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """One call a query; queries of a context begin with the same texts."""
    problems = work.problems
    group = problems // knobs["queries"]
    contexts = int(group.max(initial=-1)) + 1
    system = graph.shared_text(work.spec.system_tokens) if work.spec.system_tokens else NONE
    firsts = np.arange(contexts) * knobs["queries"]
    context = graph.text(firsts, knobs["context_tokens"] + knobs["note_tokens"], context=system)
    questions = graph.text(problems, work.prompt_tokens, context=context[group])
    right = work.attempts(problems)
    tokens = work.answer_tokens(right, share=knobs["query_share"])
    ends = graph.call(problems, context=questions, output=tokens)
    return Built(ends=ends, right=right, off_peak=_sleep(work, knobs, contexts))


def _sleep(work: Workload, knobs: Knobs, contexts: int) -> OffPeak | None:
    """Calls over all contexts at once, as many as it takes to write the tokens of a sleep."""
    if not knobs["sleep_tokens"]:
        return None
    asleep = ProgramGraph(np.zeros(contexts))
    own = np.arange(contexts)
    system = asleep.shared_text(work.spec.system_tokens) if work.spec.system_tokens else NONE
    text = asleep.text(own, knobs["context_tokens"], context=system)
    ends = asleep.call(own, context=text, output=knobs["sleep_tokens"])
    return OffPeak(graph=asleep, ends=ends, price_share=knobs["off_peak_price"])


def success(p: Floats, knobs: Knobs, quality: Quality) -> Floats:
    """As one attempt at full length: `query_share` is stated at equal accuracy."""
    return p


STRATEGIES.add(
    "sleep_time",
    Strategy(
        id="sleep_time",
        summary="contexts are worked on while devices are idle; queries need a share of the tokens",
        build=build,
        success=success,
        knobs={
            "queries": Knob(10, 1, 10**6, doc="queries on a context"),
            "query_share": Knob(0.2, 0.0, 1.0, doc="tokens of a query, in those that it needs without sleep"),
            "context_tokens": Knob(500, 1, 10**7, doc="tokens of a context"),
            "sleep_tokens": Knob(5000, 0, 10**6, doc="tokens written in a sleep over one context"),
            "note_tokens": Knob(500, 0, 10**6, doc="of these, kept for the queries"),
            "off_peak_price": Knob(0.1, 0.0, 1.0, doc="price of idle devices, in their price"),
        },
        samples=lambda _: 1,
        source="Lin et al. 2025 (arXiv 2504.13171)",
    ),
)
