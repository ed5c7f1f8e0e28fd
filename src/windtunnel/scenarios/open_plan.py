"""What a scenario leaves to the planner: its whole plan, or axes of it."""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.scenarios.expand import AUTO, open_axes
from windtunnel.scenarios.load import fields_of
from windtunnel.scenarios.source import Source
from windtunnel.specs.scenario import Scenario


def axes_left_to_planner(source: Source, overrides: Sequence[str] = ()) -> tuple[str, ...]:
    """`plan` where a scenario leaves its whole plan to the planner, or the axes that it leaves, such as plan.tp.

    A `Scenario` no longer holds which single axes were left: without a plan it is `plan`.

    Raises:
        BadInput: the file cannot be read or is not YAML.
    """
    fields = source.model_dump(mode="json", exclude_unset=True) if isinstance(source, Scenario) else source
    plan = fields_of(fields, overrides)[0].get("plan")
    if isinstance(plan, dict) and plan:
        return tuple(f"plan.{name}" for name in open_axes(plan))
    return ("plan",) if plan in (None, AUTO, {}) else ()
