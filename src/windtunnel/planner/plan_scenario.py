"""The scenario that `train` takes: a search's scenario with one of its plans written in."""

from __future__ import annotations

from windtunnel.catalog.framework_plan import with_framework_plan
from windtunnel.planner.case import Case
from windtunnel.planner.search.branch_and_bound import Branch
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario


def scenario_with_plan(branch: Branch, plan: PlanSpec) -> Scenario:
    """The branch's scenario with a plan instead of the search."""
    rest = {name: getattr(branch.scenario, name) for name in branch.scenario.model_fields_set - {"search", "plan"}}
    return Scenario.model_validate({**rest, "plan": drop_defaults(plan, branch.case)})


def drop_defaults(plan: PlanSpec, case: Case) -> PlanSpec:
    """The plan without fields that only say their default, unless the framework would set something else there."""
    stated = plan.model_dump(mode="json", exclude_defaults=True)
    short = PlanSpec.model_validate({name: value for name, value in stated.items() if value != {}})
    filled, _ = with_framework_plan(short, case.training, case.cluster, case.model)
    left_open = PlanSpec.model_fields.keys() - short.model_fields_set
    differ = [name for name in left_open if getattr(filled, name) != getattr(plan, name)]
    return short.model_copy(update={name: getattr(plan, name) for name in differ})
