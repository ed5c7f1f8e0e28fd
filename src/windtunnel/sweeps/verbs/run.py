"""`run` in a sweep: one whole training run a cell."""

from __future__ import annotations

from typing import Any

from windtunnel.sweeps.verbs import VERBS, Question, Shared, Verb


def answer(question: Question, shared: Shared) -> dict[str, Any]:
    """Predict days, failures, money; a draw is another seed of the failures."""
    del shared
    from windtunnel.runs.simulate import simulate_run

    scenario: dict[str, Any] = question.source
    if question.draw is not None:
        seed = int((scenario.get("run") or {}).get("seed", 0))
        scenario = question.with_settings({"run.seed": seed + 1 + question.draw})
    return simulate_run(scenario, sensitivities=False).to_dict()


VERBS.add("run", Verb(id="run", section="run", answer=answer, cell_cpu_s=0.5, draws="the seed of failures"))
