"""What a release of a framework can run: kinds of schedules, dispatchers, graphs, context parallelism, ZeRO stages.

A row of a framework's `rules` has a `field`, one of `RULED`, and the values that are `allowed`, the oldest row of a
field first: the last one whose `since` is not after the release and whose `when` holds counts, as for defaults. A
framework takes the rules of what it inherits from where it states none of its own; without any, nothing is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.defaults import ANYWHERE, Setting, holds
from windtunnel.stacks.releases import NEWEST, begins, release_date
from windtunnel.stacks.stack_files import lineage, stack_file

RULED: dict[str, str] = {
    "schedule": "plan.schedule",
    "cp_kind": "plan.cp_kind",
    "zero": "plan.zero",
    "zero_in_pipelines": "plan.zero",
    "recompute": "plan.recompute.policy",
    "recompute_modules": "plan.recompute.modules",
    "dispatcher": "training.moe_dispatcher",
    "cuda_graphs": "training.cuda_graphs",
    "fused_experts": "training.fused_experts",
}
"""Field of a rule → the field of a scenario that it is about. `zero_in_pipelines`: stages of ZeRO where pp > 1."""
ACTS: Mapping[str, str] = {"schedule": "pp", "cp_kind": "cp"}
"""Field of a plan → axis without which it does nothing."""

CP_KINDS: tuple[str, ...] = get_args(PlanSpec.model_fields["cp_kind"].annotation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Values of one field that a release can run."""

    values: tuple[Any, ...]
    since: str
    """Date of the change that brought them; empty where they hold from the beginning."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Runnable:
    """What one release of a framework can run."""

    framework: str
    release: str
    """As the scenario states it; empty for the newest."""
    rules: Mapping[str, Rule]

    @property
    def name(self) -> str:
        """Framework and release in words."""
        return f"{self.framework} {self.release}".strip()

    def allows(self, entry: str, value: Any) -> bool:
        """Whether the release can run a value of an entry of `RULED`; everything where no rule is known."""
        rule = self.rules.get(entry)
        return rule is None or value in rule.values

    def kept(self, entry: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Those of some values that the release can run."""
        return tuple(value for value in values if self.allows(entry, value))

    def why_not(self, entry: str, value: Any) -> str:
        """Why a value cannot be run, as a clause."""
        rule = self.rules[entry]
        known = ", ".join(str(other).lower() if isinstance(other, bool) else str(other) for other in rule.values)
        where = " with pipelines" if entry == "zero_in_pipelines" else ""
        runs = f"it runs {known}{where}" if known else "it has none"
        return f"{self.name} cannot run {value}{where}: {runs} ({rule.source})"


def runnable(framework: str, version: str = "", setting: Setting = ANYWHERE) -> Runnable:
    """What a release of a framework can run.

    Args:
        framework: framework, as scenarios name it.
        version: release; what cannot be dated counts as the newest.
        setting: what it runs on and runs.
    """
    return Runnable(framework=framework, release=version.strip(), rules=_rules(framework, version, setting))


@cache
def _rules(framework: str, version: str, setting: Setting) -> dict[str, Rule]:
    at = release_date(framework, version) or NEWEST
    found: dict[str, Rule] = {}
    for name in reversed(lineage(framework)):
        for row in stack_file(name).get("rules", ()):
            since = row.get("since")
            if (since is None or begins(since) <= at) and holds(row.get("when", {}), setting):
                values, source = tuple(row["allowed"]), row["source"]
                found[row["field"]] = Rule(values=values, since=str(since or ""), source=source)
    return found


def cannot_run(plan: PlanSpec, training: TrainingSpec, can: Runnable) -> tuple[str, ...]:
    """One line for each value that a scenario states and that its framework's release cannot run.

    Args:
        plan: The plan as it is stated.
        training: The workload as it is stated.
        can: What the release can run.
    """
    return tuple(f"{RULED[entry]}: {can.why_not(entry, value)}" for entry, value in _stated(plan, training, can))


def _stated(plan: PlanSpec, training: TrainingSpec, can: Runnable) -> Iterator[tuple[str, Any]]:
    """Entries and values that are stated, act, and cannot be run."""
    if getattr(plan, ACTS["schedule"]) > 1:
        schedule = plan.schedule or ("interleaved_1f1b" if plan.vpp > 1 else "1f1b")
        yield from _refused("schedule", schedule, can)
    if getattr(plan, ACTS["cp_kind"]) > 1 and ("cp_kind" in plan.model_fields_set or not can.kept("cp_kind", CP_KINDS)):
        yield from _refused("cp_kind", plan.cp_kind, can)
    if "zero" in plan.model_fields_set:
        entry = "zero_in_pipelines" if plan.pp > 1 and can.allows("zero", plan.zero) else "zero"
        yield from _refused(entry, plan.zero, can)
    if "recompute" in plan.model_fields_set:
        yield from _refused("recompute", plan.recompute.policy, can)
        for module in plan.recompute.modules if plan.recompute.policy == "modules" else ():
            yield from _refused("recompute_modules", module, can)
    for entry, value in (
        ("dispatcher", training.moe_dispatcher),
        ("cuda_graphs", training.cuda_graphs),
        ("fused_experts", training.fused_experts),
    ):
        if value is not None:
            yield from _refused(entry, value, can)


def _refused(entry: str, value: Any, can: Runnable) -> Iterator[tuple[str, Any]]:
    if not can.allows(entry, value):
        yield entry, value
