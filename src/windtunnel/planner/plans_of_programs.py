"""Which serving plan for which strategy: the serving planner asked once for each, the front run over what it answers.

Every strategy runs once on the instances that are assumed without a plan. That tells what its calls are like: how many
are in flight or come in a second, how many tokens they read and write. The serving planner finds the cheapest plan of
requests like these, with its proof; then all programs run on every plan that it named, as they are, with what the mean
call does not tell: shared prefixes, joins, tails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from windtunnel.errors import Infeasible
from windtunnel.planner.serving.plan_deployment import plan_serving
from windtunnel.programs.result import Point, ReasonResult
from windtunnel.programs.simulate import simulate_programs
from windtunnel.scenarios.load import load
from windtunnel.scenarios.source import FieldsInFolder, Source
from windtunnel.specs.programs import ProgramsSpec

AXES = ("tp", "pp", "dp", "ep")
_SECTIONS = ("schema_version", "cluster", "techniques")
_REQUESTS_FOR_EACH = 3
"""Requests of a planner's run for each that is in flight."""
_FEW, _MANY = 200, 20_000


def on_planned(
    source: Source, *, overrides: Sequence[str] = (), report: Callable[[int, int], None] | None = None
) -> ReasonResult:
    """Run a scenario with `programs.plans: planner`.

    Args:
        source: the scenario.
        overrides: `key=value` settings.
        report: called with (candidates done, candidates in all) of the last step.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no candidate can be served.
    """
    scenario, _, folder = load(source, overrides)
    assert scenario.programs is not None
    fields = scenario.model_dump(mode="json", exclude_unset=True)
    first = simulate_programs(_with_plans(fields, folder, ()))
    plans: list[dict[str, int]] = []
    told: list[tuple[str, Any, str]] = []
    for point in first.points:
        try:
            plan, why = _planned(fields, folder, point, scenario.programs)
        except Infeasible:
            continue
        words = " ".join(f"{axis}={size}" for axis, size in plan.items())
        told.append((f"programs.plans of {point.label} on {point.model}", words, why))
        if plan not in plans:
            plans.append(plan)
    result = simulate_programs(_with_plans(fields, folder, plans), report=report)
    return replace(result, assumed=(*told, *result.assumed), scenario=fields)


def _with_plans(fields: dict[str, Any], folder: Path, plans: Sequence[dict[str, int]]) -> FieldsInFolder:
    own = {**fields["programs"], "plans": list(plans), "plans_by": "auto_of_list" if plans else ""}
    return FieldsInFolder({**fields, "programs": own}, folder)


def _planned(fields: dict[str, Any], folder: Path, point: Point, spec: ProgramsSpec) -> tuple[dict[str, int], str]:
    """The planner's best plan for a strategy's calls, and what it was asked."""
    traffic, words = traffic_of(point, spec)
    serving = {name: value for name, value in (fields.get("serving") or {}).items() if name not in ("pools", "traffic")}
    limits = (fields.get("serving") or {}).get("pools", [{}])[0].get("limits", {})
    space = {name: [limits.get(name, usual)] for name, usual in _LIMITS.items()}
    asked = {
        **{name: fields[name] for name in _SECTIONS if name in fields},
        "model": next((m.model for m in spec.models if point.model.startswith(m.model)), fields.get("model")),
        "serving": {**serving, "router": "round_robin", "traffic": traffic},
        "search": {"target": "serving", "objective": "cost_per_million_tokens", "space": space},
    }
    scenario, lines, where = load(FieldsInFolder(asked, folder))
    best = plan_serving(scenario, lines, where).best.plan
    return {axis: int(best[axis]) for axis in AXES if best.get(axis, 1) > 1} or {"tp": 1}, words


_LIMITS = {"max_num_seqs": 1024, "max_num_batched_tokens": 8192}
"""Batch limits of the planner's candidates where the scenario states none."""


def traffic_of(point: Point, spec: ProgramsSpec) -> tuple[dict[str, Any], str]:
    """Requests like a strategy's calls, and the same in words.

    Args:
        point: the strategy as it ran.
        spec: says how its problems come.
    """
    calls = max(point.calls, 1.0)
    read = max(round((point.prompt_tokens - point.cached_tokens) / calls), 1)
    made = max(round(point.tokens / calls), 1)
    tokens = {"input_tokens": read, "output_tokens": {"distribution": "lognormal", "mean": made, "cv": 0.6}}
    if spec.rate_per_s is not None:
        rate = (point.load or spec.rate_per_s) * calls
        count = min(max(round(spec.problems * calls), _FEW), _MANY)
        words = f"{rate:.3g} calls a second of {read:,} and {made:,} tokens"
        return {"rate_per_s": rate, "num_requests": count, **tokens}, words
    served = next(iter(point.serving.values()))
    each_s = served["ttft_s"]["mean"] + served["tpot_s"]["mean"] * made
    flying = max(round(point.problems_per_s * calls * each_s), 1)
    count = min(max(_REQUESTS_FOR_EACH * flying, _FEW), _MANY)
    words = f"{flying:,} calls in flight of {read:,} and {made:,} tokens"
    return {"concurrency": flying, "num_requests": count, **tokens}, words
