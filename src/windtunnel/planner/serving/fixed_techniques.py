"""Techniques that a scenario lists: switched on in every candidate, where they rewrite the section and nothing else."""

from __future__ import annotations

from windtunnel.errors import ProblemList
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.search import SearchSpec
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques import applied

AXES = ("max_num_seqs", "max_num_batched_tokens")
"""Limits that are searched over, and that techniques may set."""


def with_techniques(scenario: Scenario, serving: ServingSpec, wanted: SearchSpec, problems: ProblemList) -> ServingSpec:
    """The section as the scenario's techniques leave it; what a search cannot hold fixed is a problem.

    Args:
        scenario: whose techniques are read.
        serving: with its pool stated.
        wanted: whose space must leave alone what techniques set.
        problems: to add to.
    """
    for one in applied(scenario.techniques, problems):
        part, name = one.technique.serving, one.technique.id
        if part is not None and part.acts_on_iterations:
            rule = "changes iterations, which the search prices without it: leave it out, and compare runs of `serve`"
            problems.add("techniques", name, rule)
            continue
        several = tuple(pool.model_copy(update={"replicas": 4}) for pool in serving.pools)
        if len(one.on_serving(serving.model_copy(update={"pools": several})).pools) != len(several):
            rule = "cuts pools in two: leave it out, and search over search.space.deployment [disaggregated]"
            problems.add("techniques", name, rule)
            continue
        before, serving = serving.pools[0].limits, one.on_serving(serving)
        for axis in AXES:
            set_to = getattr(serving.pools[0].limits, axis)
            if set_to != getattr(before, axis) and getattr(wanted.space, axis):
                problems.add(f"search.space.{axis}", list(getattr(wanted.space, axis)), f"is set by {name} ({set_to})")
    return serving
