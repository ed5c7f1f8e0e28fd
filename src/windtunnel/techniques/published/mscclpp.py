"""Collectives from one-sided puts and signals, the best composition for each size.

A library laid over the vendor's (`plan.collective_library: mscclpp`, in serving of each pool's plan): all pairs once or
twice, sums in the switch, slices across nodes, each with its messages in the data or after them. It is taken where it
is sooner than the vendor's own choice; its tuner measures, here the clock of the network model decides.

What it costs: one kernel of its own for each collective, bytes for messages that carry their flags, posting to each
further node. Operations for which nothing is added stay the vendor's.

Source: Shah et al. 2025, sections 3 to 5.
"""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.techniques.base import Knob, ServingPart, Technique
from windtunnel.techniques.serving import Knobs, with_pools


def library_of_pools(serving: ServingSpec, library: str) -> ServingSpec:
    """The section with every pool's sums by a library, where none is stated."""

    def change(pool: PoolSpec) -> dict[str, Any]:
        own = pool.plan.collective_library or library
        return {"plan": pool.plan.model_copy(update={"collective_library": own})}

    return with_pools(serving, change)


def library_of_plan(plan: PlanSpec, library: str, algorithm: str | None) -> PlanSpec:
    """The plan with a library, or with one algorithm for sums over the tensor axis whatever their size."""
    if algorithm is None:
        return plan.model_copy(update={"collective_library": library})
    return plan.model_copy(update={"collectives": {**plan.collectives, "tp.all_reduce": algorithm}})


def _plan(plan: PlanSpec, knobs: Knobs) -> PlanSpec:
    return library_of_plan(plan, "mscclpp", knobs["algorithm"])


TECHNIQUE = Technique(
    id="mscclpp",
    knobs={
        "algorithm": Knob(
            None,
            choices=(None, "put_one_shot", "put_two_shot", "put_hierarchical", "put_switch"),
            doc="training: one composition for sums over the tensor axis whatever their size; absent: the soonest",
        ),
    },
    edits=(("plan", "collective_library"), ("run", "collective_library")),
    plan=_plan,
    serving=ServingPart(settings=lambda serving, _: library_of_pools(serving, "mscclpp")),
    saves="latency of collectives",
    resource="network",
)
