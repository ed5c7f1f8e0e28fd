"""What `nvrar.yaml` changes."""

from __future__ import annotations

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.published.mscclpp import library_of_plan, library_of_pools
from windtunnel.techniques.serving import Knobs


def plan(plan: PlanSpec, knobs: Knobs) -> PlanSpec:
    return library_of_plan(plan, "nvrar", "nvrar" if knobs["always"] else None)


serving = ServingPart(settings=lambda serving, _: library_of_pools(serving, "nvrar"))
