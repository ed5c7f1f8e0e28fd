"""A prompt in parts: what asks for several independent things is split into requests that run side by side.

A call reads the prompt and writes its template and its items (`schema_tokens`), each item becomes a request that holds
the shared text, and the answers are put together. Latency is that of the longest item and of the split; the shared text
is read once if the prefix cache has it.

Source: ParallelPrompt (Kolawole et al. 2025, arXiv 2506.18728), section 3. Whether answers stay as good depends on the
prompt: accuracy is not stated.
"""

from __future__ import annotations

import numpy as np

from windtunnel.programs.forks import SHARES, Fork, divided
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """The split, the items, and the join of their answers."""
    items, questions = knobs["items"], work.questions(graph)
    tokens = work.answer_tokens(work.attempts(work.problems))
    whole = Fork(blocks=1, width=items, parallel=1.0, cv=knobs["cv"], instruction_tokens=0, reuse=False)
    shares = divided(tokens, whole, work.random(SHARES)).threads[:, 0]
    after = None
    if knobs["schema_tokens"]:
        after = graph.call(work.problems, context=questions, output=knobs["schema_tokens"])
    calls = [
        graph.call(work.problems, context=questions, new=knobs["item_tokens"], output=shares[:, i], after=after)
        for i in range(items)
    ]
    return Built(ends=graph.join(work.problems, after=np.stack(calls, axis=1)))


STRATEGIES.add(
    "split_prompt",
    Strategy(
        id="split_prompt",
        summary="a prompt with independent parts is split into parallel requests",
        build=build,
        knobs={
            "items": Knob(5, 1, 10_000, doc="parts of a prompt"),
            "cv": Knob(0.3, 0.0, 10.0, doc="standard deviation over mean of the tokens of their answers"),
            "schema_tokens": Knob(60, 0, 10**6, doc="tokens of the split; 0: it is known without a call"),
            "item_tokens": Knob(20, 0, 10**6, doc="tokens of an item, behind the shared text"),
        },
        samples=lambda _: 1,
        source="Kolawole et al. 2025 (arXiv 2506.18728)",
    ),
)
