"""The scenario that `train` takes: a search's scenario with one of its plans written in."""

from __future__ import annotations

from windtunnel.planner.search.branch_and_bound import Branch
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario


def scenario_with_plan(branch: Branch, plan: PlanSpec) -> Scenario:
    """The branch's scenario with a plan instead of the search."""
    rest = {name: getattr(branch.scenario, name) for name in branch.scenario.model_fields_set - {"search", "plan"}}
    return Scenario.model_validate({**rest, "plan": drop_defaults(plan)})


def drop_defaults(plan: PlanSpec) -> PlanSpec:
    """The plan without fields that only say their default."""
    plain = plan.model_dump(mode="json", exclude_defaults=True)
    return PlanSpec.model_validate({name: value for name, value in plain.items() if value != {}})
