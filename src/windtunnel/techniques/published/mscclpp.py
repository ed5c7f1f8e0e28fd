"""What `mscclpp.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.techniques.base import ServingPart
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


def plan(plan: PlanSpec, knobs: Knobs) -> PlanSpec:
    return library_of_plan(plan, "mscclpp", knobs["algorithm"])


serving = ServingPart(settings=lambda serving, _: library_of_pools(serving, "mscclpp"))
