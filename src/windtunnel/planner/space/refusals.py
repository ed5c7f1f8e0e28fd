"""Why candidates cannot run once techniques have rewritten them, in the simulator's own words."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field

from windtunnel import schedules
from windtunnel.errors import BadInput, Problem, ProblemList
from windtunnel.parallel.resolve import ResolvedPlan, resolve
from windtunnel.planner.case import Case
from windtunnel.specs.plan import PlanSpec
from windtunnel.training.step_setup import schedule_case


@dataclass(slots=True)
class Refusals:
    """Says why plans cannot run; reasons that differ in figures alone are reported as the first of them."""

    case: Case
    _schedules: dict[Hashable, tuple[Problem, ...]] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)

    def of(self, plan: PlanSpec) -> str | None:
        """Why a plan that has been through the techniques cannot run; None where nothing is known against it."""
        c, problems = self.case, ProblemList()
        try:
            resolved = resolve(c.model, c.cluster, c.training, plan, c.behaviour, problems)
            problems.raise_if_any()
        except BadInput as error:
            return self.words(error.problems)
        found = () if resolved is None else self._of_schedule(resolved)
        return self.words(found) if found else None

    def _of_schedule(self, plan: ResolvedPlan) -> tuple[Problem, ...]:
        """What is wrong with the schedules of techniques; those of plans have been checked."""
        if not any(t.technique.schedule for t in self.case.techniques):
            return ()
        key = plan.schedule, plan.pp, plan.m, plan.vpp
        if key not in self._schedules:
            try:
                made = schedule_case(plan, self.case.techniques)
                problem = None if made.own is not None else schedules.describe(made.id).check(made.p, made.m, made.v)
                self._schedules[key] = () if problem is None else (problem,)
            except BadInput as error:
                self._schedules[key] = error.problems
        return self._schedules[key]

    def words(self, problems: tuple[Problem, ...]) -> str:
        """The reason, as a rule."""
        first = problems[0]
        kind = re.sub(r"\d+", "", f"{first.field}: {first.rule}")
        return self._told.setdefault(kind, f"techniques make it a plan that cannot run, such as {first}")
