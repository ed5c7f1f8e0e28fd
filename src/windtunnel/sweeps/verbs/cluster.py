"""`cluster` in a sweep: one policy on one mix of jobs a cell."""

from __future__ import annotations

from typing import Any

from windtunnel.sweeps.verbs import VERBS, Question, Shared, Verb


def answer(question: Question, shared: Shared) -> dict[str, Any]:
    """Simulate jobs; a draw is another seed of arrivals and durations."""
    del shared
    from windtunnel.clusters.simulate import simulate_cluster

    scenario: dict[str, Any] = question.source
    if question.draw is not None:
        seed = int((scenario.get("jobs") or {}).get("seed", 0))
        scenario = question.with_settings({"jobs.seed": seed + 1 + question.draw})
    return simulate_cluster(scenario).to_dict()


VERBS.add("cluster", Verb(id="cluster", section="jobs", answer=answer, cell_cpu_s=1.0, draws="the seed of the jobs"))
