"""`learn` in a sweep: one comparison of algorithms a cell."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from windtunnel.sweeps.verbs import VERBS, Question, Shared, Verb


def answer(question: Question, shared: Shared) -> dict[str, Any]:
    """Learn and time; a draw is another first seed."""
    del shared
    simulate = import_module("windtunnel.learning.simulate")
    scenario: dict[str, Any] = question.source
    if question.draw is not None:
        learning = scenario.get("learning") or {}
        seed, runs = int(learning.get("seed", 1)), int(learning.get("seeds", 1))
        scenario = question.with_settings({"learning.seed": seed + runs * (1 + question.draw)})
    result: dict[str, Any] = simulate.simulate_learning(scenario).to_dict()
    return result


VERBS.add("learn", Verb(id="learn", section="learning", answer=answer, cell_cpu_s=2.0, draws="the seeds"))
