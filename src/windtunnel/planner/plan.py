"""From a scenario with a search to its best plan."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from windtunnel.errors import Infeasible
from windtunnel.importers.model import resolve_model
from windtunnel.planner.analysis.explain_best import Why, why
from windtunnel.planner.analysis.nearest_misses import nearest_misses
from windtunnel.planner.analysis.recommend import Choice, choose
from windtunnel.planner.analysis.stability import Stability, stability
from windtunnel.planner.bounds.cluster_floor import least
from windtunnel.planner.bounds.order_free_bounds import narrowed
from windtunnel.planner.bounds.screen import Bounds, Case, Screener
from windtunnel.planner.objectives import Goals
from windtunnel.planner.plan_label import shown
from windtunnel.planner.plan_scenario import filled
from windtunnel.planner.question import Question, Variant, question_of
from windtunnel.planner.search.branch_and_bound import Branch, Evaluated, Proof, Screening, search
from windtunnel.planner.search.requery import Again
from windtunnel.planner.space.candidates import Candidates
from windtunnel.planner.space.technique_axes import laid_out
from windtunnel.planner.space.unpinned_axes import freed
from windtunnel.specs.cluster import MixedClusterRef
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.search import SearchSpec
from windtunnel.specs.source import Source, load
from windtunnel.training.predict import simulate_training
from windtunnel.training.results.training_result import TrainingResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a search is."""

    candidates: int
    """Of all clusters."""
    screened: int
    """Of them with bounds; those of clusters that cannot be better need none."""
    simulated: int
    best: float | None
    """Value of the first objective; None before a plan was found."""
    next_bound: float | None
    """The best that a plan which was not simulated could be; None while bounds are computed."""
    elapsed_s: float
    doing: str = ""
    """What goes on after the search."""
    objective: str = "step_time"
    """What `best` and `next_bound` are values of."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C before any plan was found."""

    def __init__(self, candidates: int, screened: int, simulated: int) -> None:
        super().__init__(candidates, screened, simulated)
        self.candidates, self.screened, self.simulated = candidates, screened, simulated


Report = Callable[[Progress], None]
EXPLAINED = 1_000_000
"""Plans up to which a search is explained unasked: bounds without the memory limit take as long as the search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One simulated plan of the table."""

    plan: dict[str, Any]
    """Fields that differ between candidates."""
    step_time_s: float
    bound_s: float
    tokens_per_s: float
    reserved_bytes: float | None
    fits: bool | None
    """None where the plan was worse than one that fits, so that its memory was not asked for."""
    values: dict[str, float] = field(default_factory=dict)
    """All objectives and limited metrics; `memory_headroom` is missing where memory was not asked for."""
    cluster: dict[str, Any] = field(default_factory=dict)
    """device and nodes."""
    precision: str = ""
    missed: tuple[str, ...] = ()
    """Limits that it breaks, memory apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """The best plan, what it was compared with, and the proof that nothing in the space is better."""

    best: TrainingResult
    scenario: dict[str, Any]
    """The scenario with the best plan filled in: what `train` takes."""
    frontier: tuple[Ranked, ...]
    """Simulated plans, best first."""
    evaluated: int
    pruned: dict[str, int]
    """memory, bound, refused, each limit → candidates."""
    excluded: dict[str, int]
    """Rule → axis combinations (or clusters) that it took out before they became candidates."""
    proof: Proof
    elapsed_s: float
    screened_per_s: float
    by_axis: dict[str, dict[str, float]]
    """tp and pp → value → smallest bound of a plan that may fit, seconds; on the best plan's cluster."""
    written: TrainingResult | None = None
    """The scenario's own plan, where the search was free of it."""
    objectives: tuple[str, ...] = ("step_time",)
    front: tuple[Ranked, ...] = ()
    """Plans that no other beats in all objectives, by the first; empty for one objective."""
    choice: Choice | None = None
    """Which plan to take; None where step time does not decide, or the search was interrupted."""
    why: Why | None = None
    """What the search knows beyond its best plan, where it was asked."""
    stability: Stability | None = None
    """How far the cluster may change before another layout wins, where it was asked."""
    compared: dict[str, float | None] = field(default_factory=dict)
    """On groups of unlike devices: step seconds of an equal share and of each group alone; None where nothing fits."""

    @property
    def gain(self) -> float | None:
        """How much shorter the best step is than that of the plan as written, as a share of it."""
        return None if self.written is None else 1.0 - self.best.step_time_s / self.written.step_time_s

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "best": self.best.to_dict(),
            "scenario": self.scenario,
            "objectives": self.objectives,
            "frontier": [_fields(r) for r in self.frontier],
            "front": [_fields(r) for r in self.front],
            "evaluated": self.evaluated,
            "pruned": self.pruned,
            "excluded": self.excluded,
            "written": None if self.written is None else self.written.to_dict(),
            "gain": self.gain,
            "elapsed_s": self.elapsed_s,
            "screened_per_s": self.screened_per_s,
            "by_axis": self.by_axis,
            "proof": {**_fields(self.proof), "gap": self.proof.gap},
            "compared": {
                name: {"step_time_s": s, "gain": s and 1.0 - self.best.step_time_s / s}
                for name, s in self.compared.items()
            },
            "recommended": None if self.choice is None else asdict(self.choice),
            "why": None if self.why is None else self.why.to_dict(),
            "stability": None if self.stability is None else asdict(self.stability),
        }


def _fields(record: Ranked | Proof) -> dict[str, Any]:
    return {name: getattr(record, name) for name in type(record).__slots__}


def case_of(scenario: Scenario, folder: Any = None) -> tuple[Case, SearchSpec]:
    """Model, cluster, training and search of a scenario that has one cluster.

    Raises:
        BadInput: everything wrong with it, at once.
    """
    question = question_of(scenario, folder)
    return question.variants[0].case, question.wanted


def branch_of(variant: Variant, wanted: SearchSpec, goals: Goals) -> Branch:
    """Candidates of one cluster; their bounds come when they are asked for."""
    case = variant.case
    x = narrowed(case, laid_out(case, variant.scenario.plan, wanted))
    capacity = case.cluster.device.memory_bytes * goals.memory_fraction
    screener = Screener(case, capacity)
    screening = Screening(screener, x, goals)
    return Branch(
        case=case,
        setting=variant.setting,
        candidates=x,
        screening=screening,
        scenario=variant.scenario,
        screener=screener,
        least=least(case),
    )


def plan(
    source: Source,
    *,
    overrides: tuple[str, ...] = (),
    free: bool = False,
    explain: bool | None = False,
    stable: bool = False,
    report: Report | None = None,
) -> PlanResult:
    """The best plan of a scenario's search space that keeps to the limits, with the proof.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.
        free: search the axes that the scenario's plan sets as well, and simulate that plan to compare with.
        explain: also why: the runner-up, the best of every tp and pp, what each limit costs. None: in spaces of at
            most `EXPLAINED` plans.
        stable: also how far each resource of the cluster may change before another layout wins.
        report: called as the search goes on.

    Ctrl-C returns the best plan so far once there is one.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no plan keeps to the limits; the nearest miss of each is named.
    """
    begun = time.perf_counter()
    scenario, lines, folder = load(source, overrides)
    if isinstance(scenario.cluster, MixedClusterRef):
        from windtunnel.planner.heterogeneous.plan import plan_mixed

        return plan_mixed(scenario, lines, folder, begun, free=free, explain=explain is not False, report=report)
    question = question_of(scenario, folder, lines)
    written = None
    if free:
        written = simulate_training(scenario, sensitivities=False)
        scenario = freed(scenario, resolve_model(scenario, folder))
        question = question_of(scenario, folder, lines)
    goals, wanted = Goals.of(question.wanted), question.wanted
    branches, excluded = _enumerated(question, goals)
    count = sum(b.candidates.count for b in branches)
    objective = goals.objectives[0].name

    def tell(screened: int, simulated: int, best: float, bound: float) -> None:
        if report:
            known = best if best == best else None
            possible = bound if simulated else None
            done = time.perf_counter() - begun
            report(
                Progress(
                    candidates=count,
                    screened=screened,
                    simulated=simulated,
                    best=known,
                    next_bound=possible,
                    elapsed_s=done,
                    objective=objective,
                )
            )

    tell(0, 0, float("nan"), float("nan"))
    found, proof = search(branches, goals, report=tell)
    if found.best is None and not proof.complete:
        raise Stopped(count, sum(b.candidates.count for b in branches if b.screening.done), len(found.evaluated))
    if found.best is None:
        raise Infeasible(*nearest_misses(branches, goals, found, proof, lines))
    of = branches[found.best.branch]
    written_in = filled(of, found.best.plan)
    try:
        best = simulate_training(written_in)
    except KeyboardInterrupt:  # a plan that was found is never lost
        best, proof = simulate_training(written_in, sensitivities=False), replace(proof, complete=proof.open == 0)
    ranked = sorted(found.evaluated, key=lambda e: (bool(e.missed), e.key))[: wanted.top]
    front = sorted(found.front, key=lambda e: e.key) if len(goals.objectives) > 1 else []
    pruned = {"memory": proof.pruned_by_memory, "bound": proof.pruned_by_bound, "refused": proof.refused}
    result = PlanResult(
        best=best,
        scenario=written_in.model_dump(mode="json", exclude_unset=True),
        frontier=tuple(_ranked(e, branches) for e in ranked),
        evaluated=len(found.evaluated),
        pruned=pruned | proof.pruned_by_limit,
        excluded=excluded,
        proof=proof,
        elapsed_s=time.perf_counter() - begun,
        screened_per_s=_rate(branches),
        by_axis=_by_axis(of.candidates, of.bounds, of.setting.memory_bytes * goals.memory_fraction),
        written=written,
        objectives=wanted.objectives,
        front=tuple(_ranked(e, branches) for e in front),
    )
    if not proof.complete:
        return result

    def doing(what: str) -> None:
        if report:
            done = time.perf_counter() - begun
            report(
                Progress(
                    candidates=count,
                    screened=count,
                    simulated=proof.simulated,
                    best=proof.best,
                    next_bound=None,
                    elapsed_s=done,
                    doing=what,
                    objective=objective,
                )
            )

    again = Again.of(branches, goals, found)
    try:
        if len(goals.objectives) == 1:
            result = replace(result, choice=choose(again, found.best, found.evaluated))
        if explain or (explain is None and count <= EXPLAINED):
            result = replace(result, why=why(again, found.best, best, doing))
        if stable:
            told = stability(again, found.best, report=lambda name, n: doing(f"stability: {name}, {n} searches"))
            result = replace(result, stability=told)
    except KeyboardInterrupt:  # the search is done: what was asked beyond it is left out
        pass
    return result


def _enumerated(question: Question, goals: Goals) -> tuple[list[Branch], dict[str, int]]:
    """All clusters with candidates, and what rules left out.

    Raises:
        Infeasible: there is no legal plan at all.
    """
    excluded, branches = dict(question.left_out), []
    for variant in question.variants:
        branch = branch_of(variant, question.wanted, goals)
        for rule, number in branch.candidates.excluded.items():
            excluded[rule] = excluded.get(rule, 0) + number
        if branch.candidates.count:
            branches.append(branch)
    if not branches:
        rules = "; ".join(f"{rule} ({number})" for rule, number in excluded.items())
        raise Infeasible(f"no legal plan in the search space; left out by rules: {rules or 'schedules'}")
    return branches, excluded


def _rate(branches: list[Branch]) -> float:
    """Plans that got bounds in a second."""
    done = [b for b in branches if b.screening.done]
    return sum(b.candidates.count for b in done) / max(sum(b.screening.took_s for b in done), 1e-9)


def _ranked(e: Evaluated, branches: list[Branch]) -> Ranked:
    branch = branches[e.branch]
    cluster = branch.case.cluster
    return Ranked(
        plan=shown(e.plan, branch.candidates),
        step_time_s=e.step_time_s,
        bound_s=e.bound_s,
        tokens_per_s=branch.setting.tokens / e.step_time_s,
        reserved_bytes=e.reserved_bytes,
        fits=e.fits,
        values=e.values,
        cluster={"device": cluster.device.id, "nodes": cluster.nodes},
        precision=branch.case.training.precision,
        missed=e.missed,
    )


def _by_axis(x: Candidates, bounds: Bounds, capacity: float) -> dict[str, dict[str, float]]:
    """Smallest bound of plans that may fit, for each tp and each pp."""
    able = np.where(bounds.memory_bytes <= capacity, bounds.time_s, np.inf).min(axis=1)
    out: dict[str, dict[str, float]] = {}
    for axis in ("tp", "pp"):
        values = getattr(x, axis)
        best = {str(v): float(able[values == v].min()) for v in np.unique(values)}
        out[axis] = {v: s for v, s in best.items() if np.isfinite(s)}
    return out
