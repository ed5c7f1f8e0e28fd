"""From a scenario with programs to a front over accuracy, dollars, joules and latency."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.catalog import resolve_cluster
from windtunnel.errors import UNSET, BadInput, Infeasible, ProblemList, attempt
from windtunnel.population.population import Population
from windtunnel.population.resolve_population import populations
from windtunnel.programs.answers import answers
from windtunnel.programs.candidates import Candidate, candidates
from windtunnel.programs.front import best_of, limits_of, on_front
from windtunnel.programs.result import Point, ReasonResult
from windtunnel.programs.run_candidate import capacity, point, simulate
from windtunnel.programs.served import Deployed, NotServed, deploy, with_replicas
from windtunnel.scenarios.load import load
from windtunnel.scenarios.source import Source
from windtunnel.specs.cluster import groups_of
from windtunnel.specs.population import PopulationSpec
from windtunnel.specs.programs import ProgramsSpec, ServedModel
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingPlan
from windtunnel.techniques import applied

UNKNOWN = PopulationSpec(pass_1=0.5)
"""Stands for a population that nobody states, where no accuracy is reported: lengths of attempts alone depend on it."""
LOAD_UNITS = ("problems a second", "problems at once")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A scenario with everything looked up that its candidates share."""

    scenario: Scenario
    fields: dict[str, Any]
    folder: Any
    programs: ProgramsSpec
    candidates: list[Candidate]
    populations: dict[str, Population]
    citations: tuple[str, ...]

    def population(self, model: ServedModel | None) -> Population:
        """That of a candidate's model."""
        return self.populations[model.model if model and model.model in self.populations else ""]


def simulate_programs(
    source: Source, *, overrides: Sequence[str] = (), report: Callable[[int, int], None] | None = None
) -> ReasonResult:
    """Run every strategy of a scenario on every model, and keep what no other beats.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.
        report: called with (candidates done, candidates in all).

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no candidate can be served.

    Example:
        >>> import windtunnel as wt
        >>> wt.simulate_programs("examples/reasoning/best-of-n.yaml").best.label  # doctest: +SKIP
    """
    begun = time.perf_counter()
    asked = _asked(source, overrides)
    points: list[Point] = []
    refused: list[dict[str, str]] = []
    assumed: dict[tuple[str, str], tuple[str, Any, str]] = {}
    deployments: dict[Any, Deployed | Infeasible | None] = {}
    not_served: list[NotServed] = []
    warned: dict[str, list[str]] = {}
    for at, candidate in enumerate(asked.candidates):
        if report is not None:
            report(at, len(asked.candidates))
        scored = candidate.strategy.scores(candidate.knobs)
        spec = asked.programs.at(candidate.load)
        roles = candidate.strategy.roles_of(candidate.knobs)
        key = (candidate.model, candidate.plan, scored, roles, candidate.load)
        if key not in deployments:
            deployments[key] = _deployed(asked, candidate, scored=scored)
        deployed = deployments[key]
        if deployed is None:
            continue
        if isinstance(deployed, Infeasible):
            model = candidate.model.model if candidate.model else str(asked.fields.get("model", ""))
            refused.append({"model": model, "label": candidate.label, "why": str(deployed)})
            continue
        population = asked.population(candidate.model)
        try:
            deployed, sized = _for_the_rate(spec, candidate, population, deployed)
            run = simulate(candidate, spec, population, deployed)
            at_most = capacity(candidate, spec, population, deployed) if spec.api_price is not None else None
        except NotServed as error:
            not_served.append(error)
            refused.append({"model": deployed.name, "label": candidate.label, "why": str(error)})
            continue
        one = point(run, spec, population, at_most)
        points.append(one if asked.scenario.population is not None else replace(one, accuracy=None))
        for warning in (w for r in run.results for w in r.warnings):
            warned.setdefault(warning, []).append(candidate.label)
        of_runs = ((x["field"], x["value"], x["why"]) for r in run.results for x in r.assumed)
        assumed.update({(own[0], str(own[1])): own for own in (*sized, *deployed.assumed, *of_runs)})
    if report is not None:
        report(len(asked.candidates), len(asked.candidates))
    if asked.scenario.population is None:
        why = "not stated: no accuracy is reported, and right attempts are as long as wrong ones"
        assumed[("population", "")] = ("population", "none", why)
    if not points and not_served:
        raise BadInput(list(dict.fromkeys(problem for own in not_served for problem in own.error.problems)))
    if not points:
        raise next(d for d in deployments.values() if isinstance(d, Infeasible))
    result = _result(asked, points, refused, tuple(assumed.values()), time.perf_counter() - begun)
    return replace(result, warnings=_warnings(warned, len(points)))


def _warnings(warned: dict[str, list[str]], count: int) -> tuple[str, ...]:
    """Warnings of runs, each once, with the candidates that it is of."""
    out = []
    for text, labels in warned.items():
        of = ", ".join(labels[:2]) + (f" and {len(labels) - 2} more" if len(labels) > 2 else "")
        out.append(text if len(labels) == count else f"{of}: {text}")
    return tuple(out)


def _asked(source: Source, overrides: Sequence[str]) -> _Asked:
    scenario, lines, folder = load(source, overrides)
    problems = ProblemList(lines)
    programs = scenario.programs
    if programs is None:
        problems.add("programs", UNSET, "is required for `reason`: strategies and problems")
    if scenario.search is not None and scenario.search.target != "programs":
        problems.add("search.objective", scenario.search.objective, "must be accuracy or another figure of programs")
    if not scenario.model and not (programs and programs.models):
        problems.add("model", UNSET, "is required where programs.models names none")
    if programs is not None and programs.plans_by == "planner":
        problems.add("programs.plans", "planner", "is read by `reason` alone; list plans, or state auto")
    chosen = applied(scenario.techniques, problems)
    plans = attempt("cluster", lambda: _plans(scenario, programs), problems) if programs is not None else None
    found = candidates(programs, chosen, plans or (None,), problems) if programs is not None else []
    known: dict[str, Population] = {}
    if scenario.population is None:
        if any(c.strategy.success is not None or c.knobs.get("answer") for c in found) or not found:
            problems.add("population", UNSET, "is required for `reason`: how often one attempt is right")
        known = populations(UNKNOWN)
    else:
        try:
            known = populations(scenario.population)
        except BadInput as error:
            problems.extend(error.problems)
        else:
            for model in programs.models if programs else ():
                if "" not in known and model.model not in known:
                    problems.add(f"population.models.{model.model}", UNSET, "is required: programs.models names it")
            if programs and not programs.models and "" not in known:
                only = known.get(str(scenario.model))
                if only is None:
                    problems.add(
                        f"population.models.{scenario.model}", UNSET, "is required: it is the scenario's model"
                    )
                else:
                    known[""] = only
    problems.raise_if_any()
    assert programs is not None
    return _Asked(
        scenario=scenario,
        fields=scenario.model_dump(mode="json", exclude_unset=True),
        folder=folder,
        programs=programs,
        candidates=found,
        populations=known,
        citations=tuple(one.technique.paper.line() for one in chosen),
    )


def _deployed(asked: _Asked, candidate: Candidate, *, scored: bool) -> Deployed | Infeasible | None:
    """A candidate's deployments, or why they do not fit; None for one of `plans: auto` that its model forbids."""
    roles = candidate.strategy.roles_of(candidate.knobs)
    fields = asked.fields
    if candidate.load is not None:
        own = {"concurrency": int(candidate.load)} if asked.programs.concurrency else {"rate_per_s": candidate.load}
        fields = {**fields, "programs": {**fields["programs"], **own}}
    try:
        return deploy(fields, asked.scenario, asked.folder, candidate.model, candidate.plan, scored=scored, roles=roles)
    except Infeasible as error:
        return error
    except BadInput:
        open_ = asked.programs.plans_by in ("auto", "auto_of_list")
        if open_ and candidate.plan is not None and candidate.plan.num_devices > 1:
            return None
        raise


def _for_the_rate(
    spec: ProgramsSpec, candidate: Candidate, population: Population, deployed: Deployed
) -> tuple[Deployed, list[tuple[str, Any, str]]]:
    """As many instances as a stated rate of problems needs, where nobody says how many; else all as they are."""
    if spec.rate_per_s is None or not deployed.replicas_open:
        return deployed, []
    most = deployed.answers.pool.replicas
    alone = capacity(candidate, spec, population, with_replicas(deployed, 1)).problems_per_s
    needed = min(max(math.ceil(spec.rate_per_s / (spec.busy * alone)), 1), most) if alone > 0 else most
    why = f"one instance does {alone:.3g} problems/s at most; busy {spec.busy:g} of the time"
    field = f"programs.replicas of {candidate.label}"
    return (with_replicas(deployed, needed) if needed != most else deployed), [(field, needed, why)]


def _plans(scenario: Scenario, spec: ProgramsSpec) -> tuple[ServingPlan | None, ...]:
    """Plans that models without a plan of their own are compared under; None: whatever the scenario says."""
    if spec.plans_by != "auto":
        return spec.plans or (None,)
    domain = groups_of(resolve_cluster(scenario.cluster))[0].scale_up_domain
    return tuple(ServingPlan(tp=2**k) for k in range(int(domain).bit_length()))


def _result(
    asked: _Asked,
    points: list[Point],
    refused: list[dict[str, str]],
    assumed: tuple[tuple[str, Any, str], ...],
    seconds: float,
) -> ReasonResult:
    from windtunnel import __version__

    scenario = asked.scenario
    search = scenario.search
    limits = limits_of(search)
    known = any(p.accuracy is not None for p in points)
    objective = search.objectives[0] if search is not None else "accuracy" if known else "cost_per_task"
    if search is None and asked.programs.deadline_s is not None:
        limits["deadline_met"] = asked.programs.deadline_share
    shown = [replace(p, on_front=on) for p, on in zip(points, on_front(points), strict=True)]
    return ReasonResult(
        scenario_name=asked.scenario.name,
        objective=objective,
        points=tuple(shown),
        best=best_of(shown, objective, limits),
        limits=limits,
        population={} if scenario.population is None else {n: _plain(own) for n, own in asked.populations.items()},
        answers=answers(shown, asked.programs),
        refused=tuple(refused),
        problems=asked.programs.problems,
        deadline_s=asked.programs.deadline_s,
        load_unit="" if not asked.programs.loads else LOAD_UNITS[asked.programs.concurrency is not None],
        assumed=assumed,
        scenario=asked.fields,
        citations=asked.citations,
        version=__version__,
        simulated_in_s=seconds,
    )


def _plain(own: Population) -> dict[str, Any]:
    fit = own.fit
    return {
        "a": fit.law.a,
        "b": fit.law.b,
        "most": fit.law.most,
        "pass_1": fit.law.mean,
        "grade": fit.grade,
        "why": fit.why,
        "notes": list(fit.notes),
        "temperature": own.temperature,
        "max_tokens": own.max_tokens,
    }
