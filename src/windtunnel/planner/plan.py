"""From a scenario with a search to its best plan."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel import catalog
from windtunnel.cost.coefficients import behaviour, coefficients
from windtunnel.errors import Infeasible, Problem, ProblemList
from windtunnel.planner.screen import Bounds, Case, Screener
from windtunnel.planner.search import Evaluated, Found, Proof, search
from windtunnel.planner.space import LAYOUT_AXES, Candidates, candidates
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.search import SearchSpec
from windtunnel.techniques import applied
from windtunnel.training.predict import Source, load, resolve_model, simulate_training
from windtunnel.training.results import TrainingResult

Report = Callable[[int, float, float], None]
_SEARCHED = {*LAYOUT_AXES, "dp", "sp", "recompute", "schedule", "stage_layers", "shard_group"}
"""Fields of a plan that a free search chooses anew."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One simulated plan of the table."""

    plan: dict[str, Any]
    """Fields that differ between candidates."""
    step_time_s: float
    bound_s: float
    tokens_per_s: float
    reserved_bytes: float | None
    fits: bool | None
    """None where the plan was slower than one that fits, so that its memory was not asked for."""


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The best plan, what it was compared with, and the proof that nothing in the space is faster."""

    best: TrainingResult
    scenario: dict[str, Any]
    """The scenario with the best plan filled in: what `train` takes."""
    frontier: tuple[Ranked, ...]
    """Simulated plans, fastest first."""
    evaluated: int
    pruned: dict[str, int]
    """memory, bound, refused → candidates."""
    excluded: dict[str, int]
    """Rule → axis combinations that it took out before they became candidates."""
    proof: Proof
    elapsed_s: float
    screened_per_s: float
    by_axis: dict[str, dict[str, float]]
    """tp and pp → value → smallest bound of a plan that may fit, seconds."""
    written: TrainingResult | None = None
    """The scenario's own plan, where the search was free of it."""

    @property
    def gain(self) -> float | None:
        """How much shorter the best step is than that of the plan as written, as a share of it."""
        return None if self.written is None else 1.0 - self.best.step_time_s / self.written.step_time_s

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "best": self.best.to_dict(), "scenario": self.scenario,
            "frontier": [
                {name: getattr(r, name) for name in Ranked.__slots__} for r in self.frontier
            ],
            "evaluated": self.evaluated, "pruned": self.pruned, "excluded": self.excluded,
            "written": None if self.written is None else self.written.to_dict(), "gain": self.gain,
            "elapsed_s": self.elapsed_s, "screened_per_s": self.screened_per_s, "by_axis": self.by_axis,
            "proof": {**{name: getattr(self.proof, name) for name in Proof.__slots__}, "gap": self.proof.gap},
        }  # fmt: skip


def case_of(scenario: Scenario, folder: Any) -> tuple[Case, SearchSpec]:
    """Model, cluster, training and search of a scenario.

    Raises:
        BadInput: everything wrong with it, at once.
    """
    problems = ProblemList()
    if scenario.training is None:
        problems.extend([Problem(field="training", rule="is required for `plan`: seq_len and global_batch at least")])
    search_for = scenario.search or SearchSpec()
    if search_for.target != "training":
        problems.add("search.target", search_for.target, "only training is planned yet")
    chosen = applied(scenario.techniques, problems)
    problems.raise_if_any()
    assert scenario.training is not None
    model, cluster = resolve_model(scenario, folder), catalog.resolve_cluster(scenario.cluster)
    training = scenario.training
    how = behaviour(training.framework)
    return Case(model, cluster, training, chosen, how, coefficients(training.framework, cluster.device)), search_for


def plan(
    source: Source, *, overrides: tuple[str, ...] = (), free: bool = False, report: Report | None = None
) -> PlanResult:
    """The fastest plan of a scenario's search space that fits, with the proof.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.
        free: search the axes that the scenario's plan sets as well, and simulate that plan to compare with.
        report: called with (simulated, best so far in s, next bound in s).

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no plan fits; the nearest miss is named.
    """
    begun = time.perf_counter()
    scenario, _, folder = load(source, overrides)
    case, wanted = case_of(scenario, folder)
    written = None
    if free:
        written = simulate_training(scenario, sensitivities=False)
        kept = {n: getattr(scenario.plan, n) for n in scenario.plan.model_fields_set - _SEARCHED}
        scenario = scenario.model_copy(update={"plan": type(scenario.plan).model_validate(kept)})
    x = candidates(case.model, case.cluster, case.training, scenario.plan, wanted, case.behaviour)
    if not x.count:
        rules = "; ".join(f"{rule} ({number})" for rule, number in x.excluded.items())
        raise Infeasible("no legal plan in the search space", f"left out by rules: {rules or 'schedules'}")
    fraction = wanted.limits.memory_fraction
    bounds = Screener(case, case.cluster.device.memory_bytes * fraction).bounds(x)
    screened = time.perf_counter() - begun

    found, proof = search(case, x, bounds, memory_fraction=fraction, report=report)
    if found.best is None:
        raise Infeasible(*_nearest_miss(case, x, bounds, found))
    rest = {name: getattr(scenario, name) for name in scenario.model_fields_set - {"search", "plan"}}
    filled = Scenario.model_validate({**rest, "plan": _sparse(found.best)})
    best = simulate_training(filled)
    tokens = float(case.training.global_batch) * case.training.seq_len
    table = tuple(
        Ranked(_shown(e, x), e.step_time_s, e.bound_s, tokens / e.step_time_s, e.reserved_bytes, e.fits)
        for e in sorted(found.evaluated, key=lambda e: e.step_time_s)[: wanted.top]
    )
    elapsed = time.perf_counter() - begun
    pruned = {"memory": proof.pruned_by_memory, "bound": proof.pruned_by_bound, "refused": proof.refused}
    return PlanResult(
        best, filled.model_dump(mode="json", exclude_unset=True), table, len(found.evaluated), pruned, x.excluded,
        proof, elapsed, x.count / max(screened, 1e-9), _by_axis(x, bounds, case.cluster.device.memory_bytes * fraction),
        written,
    )  # fmt: skip


def _sparse(e: Evaluated) -> PlanSpec:
    """The plan without fields that only say their default."""
    plain = e.plan.model_dump(mode="json", exclude_defaults=True)
    return PlanSpec.model_validate({name: value for name, value in plain.items() if value != {}})


def _shown(e: Evaluated, x: Candidates) -> dict[str, Any]:
    plan = e.plan.model_dump(mode="json")
    names = [*LAYOUT_AXES, "dp", "zero"]
    shown = {name: plan[name] for name in names}
    layers = e.plan.recompute.num_layers
    shown["recompute"] = e.plan.recompute.policy + (f":{layers}" if layers is not None else "")
    first = x.policies[0]
    for name in ("sp", "schedule", "cp_kind", "order"):
        if any(getattr(q, name) != getattr(first, name) for q in x.policies):
            shown[name] = getattr(x.policies[e.policy], name)
    for name in ("offload", "overlap"):
        if any(getattr(q, name) != getattr(first, name) for q in x.policies):
            shown[name] = getattr(x.policies[e.policy], name).model_dump(mode="json", exclude_defaults=True)
    return shown


def _by_axis(x: Candidates, bounds: Bounds, capacity: float) -> dict[str, dict[str, float]]:
    """Smallest bound of plans that may fit, for each tp and each pp."""
    able = np.where(bounds.memory_bytes <= capacity, bounds.time_s, np.inf).min(axis=1)
    out: dict[str, dict[str, float]] = {}
    for axis in ("tp", "pp"):
        values = getattr(x, axis)
        best = {str(v): float(able[values == v].min()) for v in np.unique(values)}
        out[axis] = {v: s for v, s in best.items() if np.isfinite(s)}
    return out


def _nearest_miss(case: Case, x: Candidates, bounds: Bounds, found: Found) -> tuple[str, str]:
    capacity = case.cluster.device.memory_bytes / 2**30
    tried = [e for e in found.evaluated if e.reserved_bytes is not None]
    if tried:
        e = min(tried, key=lambda e: e.reserved_bytes or 0.0)
        need, shown = (e.reserved_bytes or 0.0) / 2**30, _shown(e, x)
    else:
        layout, policy = np.unravel_index(int(np.argmin(bounds.memory_bytes)), bounds.memory_bytes.shape)
        need = float(bounds.memory_bytes[layout, policy]) / 2**30
        plan = x.plan(int(layout), int(policy))
        shown = _shown(Evaluated(int(layout), int(policy), plan, 0.0, 0.0, None, None), x)
    text = " ".join(f"{k} {v}" for k, v in shown.items())
    return f"none of {x.count:,} plans fits {capacity:.1f} GiB", f"{need:.1f} GiB with {text}"
