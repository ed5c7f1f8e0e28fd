"""The best plan over clusters that each have one kind of device: bounds, search, and what is asked beyond it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Mask
from windtunnel.errors import Infeasible
from windtunnel.importers.model import resolve_model
from windtunnel.planner.analysis.explain_best import why
from windtunnel.planner.analysis.nearest_misses import nearest_misses
from windtunnel.planner.analysis.recommend import choose
from windtunnel.planner.analysis.run_finalists import Finalist, run_finalists, with_spares
from windtunnel.planner.analysis.stability import stability
from windtunnel.planner.bounds.cluster_floor import cluster_floor
from windtunnel.planner.bounds.order_free_bounds import drop_undecidable
from windtunnel.planner.bounds.screen import Bounds, Screener
from windtunnel.planner.case import Case
from windtunnel.planner.deadline import Deadline
from windtunnel.planner.objectives import Goals
from windtunnel.planner.plan_label import shown
from windtunnel.planner.plan_scenario import scenario_with_plan
from windtunnel.planner.question import Question, Variant, question_of
from windtunnel.planner.request import PlanRequest
from windtunnel.planner.result import PlanResult, Progress, Ranked, Stopped
from windtunnel.planner.search.branch_and_bound import Branch, Evaluated, Found, Proof, Screening, search
from windtunnel.planner.search.requery import FinishedSearch
from windtunnel.planner.space.candidates import Candidates
from windtunnel.planner.space.searched_axes import not_searched, searched
from windtunnel.planner.space.technique_axes import candidates_under_techniques
from windtunnel.planner.space.unpinned_axes import unpin_axes
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.search import SearchSpec
from windtunnel.training.predict import simulate_training
from windtunnel.training.results.training_result import TrainingResult

SEARCH_S, ANSWER_S = 15.0, 20.0
"""Processor seconds after which a search that gives its layouts bounds in parts takes the best plan so far and says how
much better another could be; and until when such a search is explained. An answer is wanted in 30 s on quiet cores; on
busy ones it comes later. `--time-limit` sets another end."""
SEARCH_SHARE, ANSWER_SHARE = 0.7, 0.9
"""Shares of a time limit after which the search, and its explanation, end: a prediction of the best plan takes the
rest."""
UNSEEN = "the search ended before every plan was looked at"
TIME_UP = "time was up"
STOPPED = "interrupted"
"""Why an answer about the best plan is left out."""
EXPLAINED = 1_000_000
"""A search over at most this many plans is explained unasked: bounds without the memory limit take as long as the
search."""


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
    x = drop_undecidable(case, candidates_under_techniques(case, variant.scenario.plan, wanted))
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
        cluster_floor=cluster_floor(case),
    )


def plan_one_cluster(request: PlanRequest) -> PlanResult:
    """The best plan of a scenario whose clusters each have one kind of device, with the proof.

    Args:
        request: the loaded scenario and what the answer shall hold.

    Ctrl-C returns the best plan so far once there is one.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no plan keeps to the limits; the nearest miss of each is named.
        Stopped: Ctrl-C before any plan was found.
    """
    question, written = _question(request)
    goals = Goals.of(question.wanted)
    branches, excluded = _enumerated(question, goals)
    progress = _ProgressReport(request, sum(b.candidates.count for b in branches), goals.objectives[0].name)
    progress.searching(0, 0, float("nan"), float("nan"))
    searched, answered = _deadlines(request, branches)
    found, proof = search(branches, goals, report=progress.searching, deadline=searched)
    if found.best is None and not proof.complete:
        screened = sum(b.screening.number_done for b in branches)
        raise Stopped(progress.candidates, screened, len(found.evaluated))
    if found.best is None:
        missed = Infeasible(*nearest_misses(branches, goals, found, proof, request.lines))
        missed.looked_at = proof.candidates
        raise missed
    finalists: tuple[Finalist, ...] = ()
    try:
        if len(goals.objectives) == 1:
            finalists, found.best = run_finalists(branches, goals, found, lambda what: progress.explaining(proof, what))
    except KeyboardInterrupt:  # the closed form decides
        proof = replace(proof, complete=proof.open == 0)
    assert found.best is not None
    best_scenario = with_spares(scenario_with_plan(branches[found.best.branch], found.best.plan), found.best)
    try:
        best = simulate_training(best_scenario)
    except KeyboardInterrupt:  # a plan that was found is never lost
        best, proof = simulate_training(best_scenario, sensitivities=False), replace(proof, complete=proof.open == 0)
    answer = _Answer(question=question, goals=goals, branches=branches, found=found, proof=proof)
    result = replace(
        answer.result(best, best_scenario, excluded),
        elapsed_s=time.perf_counter() - request.begun,
        written=written,
        finalists=finalists,
    )
    if not proof.complete:
        result = replace(result, stopped="time" if searched.passed else STOPPED)
    if not proof.complete and not searched.passed:  # Ctrl-C
        return replace(result, left_out=STOPPED)
    if answered.passed:
        return replace(result, left_out=TIME_UP)
    return answer.explained(result, request, progress, answered)


def _deadlines(request: PlanRequest, branches: list[Branch]) -> tuple[Deadline, Deadline]:
    """When the search ends with what it has, and when its explanation does."""
    if request.time_limit_s is not None:
        return request.deadline(SEARCH_SHARE), request.deadline(ANSWER_SHARE)
    if not any(branch.screening.in_parts for branch in branches):
        return Deadline.never(), Deadline.never()
    begun = time.process_time()
    return Deadline(time.process_time, begun + SEARCH_S), Deadline(time.process_time, begun + ANSWER_S)


def _question(request: PlanRequest) -> tuple[Question, TrainingResult | None]:
    """What the scenario asks, and its own plan simulated where the search is free of it.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    scenario = request.scenario
    question = question_of(scenario, request.folder, request.lines)
    if not request.free:
        return question, None
    written = simulate_training(scenario, sensitivities=False)
    scenario = unpin_axes(scenario, resolve_model(scenario, request.folder))
    return question_of(scenario, request.folder, request.lines), written


@dataclass(frozen=True, slots=True)
class _ProgressReport:
    """Tells the caller how far the search is, where the request asks for that."""

    request: PlanRequest
    candidates: int
    objective: str

    def searching(self, screened: int, simulated: int, best: float, bound: float) -> None:
        """Report the state of the search; `best` is not a number before a plan was found."""
        if self.request.report:
            self.request.report(
                Progress(
                    candidates=self.candidates,
                    screened=screened,
                    simulated=simulated,
                    best=best if best == best else None,
                    next_bound=bound if simulated else None,
                    elapsed_s=time.perf_counter() - self.request.begun,
                    objective=self.objective,
                )
            )

    def explaining(self, proof: Proof, what: str) -> None:
        """Report what is worked out after the search."""
        if self.request.report:
            self.request.report(
                Progress(
                    candidates=self.candidates,
                    screened=self.candidates,
                    simulated=proof.simulated,
                    best=proof.best,
                    next_bound=None,
                    elapsed_s=time.perf_counter() - self.request.begun,
                    doing=what,
                    objective=self.objective,
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """A search that found a plan, and what its result is made of."""

    question: Question
    goals: Goals
    branches: list[Branch]
    found: Found
    proof: Proof

    @property
    def best(self) -> Evaluated:
        """The best plan."""
        assert self.found.best is not None
        return self.found.best

    def result(self, best: TrainingResult, best_scenario: Scenario, excluded: dict[str, int]) -> PlanResult:
        """Tables and counts of the search, without what is worked out after it.

        Args:
            best: the simulation of the best plan.
            best_scenario: the scenario with the best plan filled in.
            excluded: rule → combinations that it took out before they became candidates.
        """
        wanted, goals, proof, branches = self.question.wanted, self.goals, self.proof, self.branches
        ranked = sorted(self.found.evaluated, key=lambda e: (bool(e.missed), e.key))[: wanted.top]
        front = sorted(self.found.front, key=lambda e: e.key) if len(goals.objectives) > 1 else []
        pruned = {"memory": proof.pruned_by_memory, "bound": proof.pruned_by_bound, "refused": proof.refused}
        own = branches[self.best.branch]
        spaces = [(own.case, own.candidates), *((b.case, b.candidates) for b in branches if b is not own)]
        varied = searched(spaces)
        return PlanResult(
            best=best,
            scenario=best_scenario.model_dump(mode="json", exclude_unset=True),
            frontier=tuple(_ranked(e, branches) for e in ranked),
            evaluated=len(self.found.evaluated),
            pruned=pruned | proof.pruned_by_limit,
            excluded=excluded,
            proof=proof,
            elapsed_s=0.0,
            screened_per_s=_rate(branches),
            by_axis=_by_axis(own.candidates, own.bounds, goals.room_bytes(own.setting), own.screening.refined),
            objectives=wanted.objectives,
            front=tuple(_ranked(e, branches) for e in front),
            memory_fraction=goals.memory_fraction,
            without_margin=self._without_margin(),
            searched=varied,
            not_searched=not_searched(spaces, varied),
        )

    def _without_margin(self) -> Ranked | None:
        """The best simulated plan that needs memory which `memory_fraction` keeps free, where that is better."""
        key = self.best.key[0], self.best.key[-1]
        better = [
            e
            for e in self.found.evaluated
            if (e.key[0], e.key[-1]) < key
            and not e.missed
            and e.reserved_bytes is not None
            and e.reserved_bytes <= self.branches[e.branch].setting.memory_bytes
        ]
        return _ranked(min(better, key=lambda e: e.key), self.branches) if better else None

    def explained(
        self, result: PlanResult, request: PlanRequest, progress: _ProgressReport, deadline: Deadline
    ) -> PlanResult:
        """The result with the recommended plan, and why the best plan is the best where that is asked.

        Ctrl-C and the deadline leave out what is not worked out yet. What a search that ended early has not looked at
        could change every answer: none is given but what the plans that were looked at say.
        """

        def doing(what: str) -> None:
            progress.explaining(self.proof, what)

        finished = FinishedSearch.of(self.branches, self.goals, self.found)
        finished.deadline = deadline
        explain = request.explain
        try:
            if len(self.goals.objectives) == 1:
                result = replace(result, choice=choose(finished, self.best, self.found.evaluated))
            asked = explain or (explain is None and progress.candidates <= EXPLAINED)
            if asked and self.proof.complete:
                result = replace(result, why=why(finished, self.best, result.best, doing))
            elif asked:
                result = replace(result, left_out=UNSEEN)
            if request.stable and self.proof.complete:
                steps = stability(finished, self.best, report=lambda name, n: doing(f"stability: {name}, {n} searches"))
                result = replace(result, stability=steps)
        except KeyboardInterrupt:  # the search is done: what was asked beyond it is left out
            result = replace(result, left_out=TIME_UP if deadline.passed else STOPPED)
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
        if inner := _never_divides(question):
            raise Infeasible(inner)
        rules = "; ".join(f"{rule} ({number})" for rule, number in excluded.items())
        raise Infeasible(f"no legal plan in the search space; left out by rules: {rules or 'schedules'}")
    return branches, excluded


def _never_divides(question: Question) -> str:
    """What is wrong where a plan states tp, pp and cp and no cluster has a multiple of their product; else empty."""
    plan, space = question.variants[0].scenario.plan, question.wanted.space
    if any(getattr(space, name) is not None for name in ("tp", "pp", "cp")):
        return ""
    inner = plan.tp * plan.pp * plan.cp
    sizes = sorted({variant.case.cluster.num_devices for variant in question.variants})
    if any(size % inner == 0 for size in sizes):
        return ""
    rule = "is more than" if inner > sizes[-1] else "does not divide"
    return f"tp {plan.tp} · pp {plan.pp} · cp {plan.cp} = {inner} {rule} the {sizes[-1]:,} devices of the cluster"


def _rate(branches: list[Branch]) -> float:
    """Plans that got bounds in a second."""
    done = [b.screening for b in branches if b.screening.done]
    return sum(s.number_done for s in done) / max(sum(s.took_s for s in done), 1e-9)


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
        whole_run={} if e.whole_run is None else asdict(e.whole_run),
    )


def _by_axis(x: Candidates, bounds: Bounds, capacity: float, refined: Mask | None) -> dict[str, dict[str, float]]:
    """Smallest bound of plans that may fit, for each tp and each pp."""
    able = np.where(bounds.memory_bytes <= capacity, bounds.time_s, np.inf).min(axis=1)
    if refined is not None:  # a large space: the others have quick bounds alone
        able = np.where(refined, able, np.inf)
    out: dict[str, dict[str, float]] = {}
    for axis in ("tp", "pp"):
        values = getattr(x, axis)
        best = {str(v): float(able[values == v].min()) for v in np.unique(values)}
        out[axis] = {v: s for v, s in best.items() if np.isfinite(s)}
    return out
