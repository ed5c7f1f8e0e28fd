"""`serve` in a sweep: one load on one deployment a cell."""

from __future__ import annotations

from typing import Any

from windtunnel.sweeps.verbs import VERBS, Question, Shared, Verb


def answer(question: Question, shared: Shared) -> dict[str, Any]:
    """Simulate requests; a draw is another seed of the traffic, the same for all cells of that draw."""
    del shared
    from windtunnel.serving.simulate import simulate_serving

    scenario: dict[str, Any] = question.source
    if question.draw is not None:
        traffic = (scenario.get("serving") or {}).get("traffic") or {}
        seed = int(traffic.get("seed", 0) if isinstance(traffic, dict) else 0)
        scenario = question.with_settings({"serving.traffic.seed": seed + 1 + question.draw})
    return simulate_serving(scenario).to_dict()


VERBS.add(
    "serve",
    Verb(id="serve", section="serving", answer=answer, cell_cpu_s=0.1, draws="the seed of the traffic"),
)
