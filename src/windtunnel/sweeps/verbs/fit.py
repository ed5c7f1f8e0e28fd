"""`fit` in a sweep: does it fit, and what would."""

from __future__ import annotations

from typing import Any

from windtunnel.sweeps.verbs import VERBS, Question, Shared, Verb


def answer(question: Question, shared: Shared) -> dict[str, Any]:
    """Peak memory and the nearest plan that fits."""
    del shared
    from windtunnel.planner.memory_fit import memory_fit
    from windtunnel.techniques import applied
    from windtunnel.training.predict import prepare

    prepared, scenario = prepare(question.source)
    return memory_fit(prepared, scenario.plan, applied(scenario.techniques)).to_dict()


VERBS.add("fit", Verb(id="fit", section="", answer=answer, cell_cpu_s=0.5))
