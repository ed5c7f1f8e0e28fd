"""`reason` in a sweep: one front of strategies a cell."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from windtunnel.sweeps.verbs import VERBS, Question, Shared, Verb


def answer(question: Question, shared: Shared) -> dict[str, Any]:
    """Run all candidates; a draw is another seed of the problems. The best candidate's figures stand for the cell."""
    del shared
    simulate = import_module("windtunnel.programs.simulate")
    scenario: dict[str, Any] = question.source
    if question.draw is not None:
        seed = int((scenario.get("programs") or {}).get("seed", 0))
        scenario = question.with_settings({"programs.seed": seed + 1 + question.draw})
    result: dict[str, Any] = simulate.simulate_programs(scenario).to_dict()
    return result


VERBS.add("reason", Verb(id="reason", section="programs", answer=answer, cell_cpu_s=2.0, draws="the problems' seed"))
