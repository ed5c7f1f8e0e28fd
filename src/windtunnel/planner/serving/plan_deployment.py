"""From a scenario with `search.target: serving` to its best deployment."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.errors import Infeasible
from windtunnel.planner.deadline import Deadline
from windtunnel.planner.serving.autoscale_bounds import autoscaled
from windtunnel.planner.serving.autoscale_range import instances_needed
from windtunnel.planner.serving.best_first_search import Evaluated, Found, Proof, Search
from windtunnel.planner.serving.candidate_table import CandidateTable
from windtunnel.planner.serving.instance_types import InstanceType, Kinds, kinds_of
from windtunnel.planner.serving.measure_next import Ends, ServingMeasurement, measure_next
from windtunnel.planner.serving.nearest_misses import nearest_miss
from windtunnel.planner.serving.question import GRID, Question, loads_of, question_of
from windtunnel.planner.serving.searched_axes import not_searched, searched
from windtunnel.planner.serving.simulate_candidate import Runs
from windtunnel.planner.serving.space import screen
from windtunnel.serving.deployment import prepare
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.simulate import serve_requests, with_traffic
from windtunnel.specs.scenario import ModelFile, Scenario
from windtunnel.versions import RESULT_SCHEMA

FINER = 10
"""Loads between two of the grid, around the best."""
TIE = 0.01
"""Objectives this close, as a share, are as good as equal: predictions are wider than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a search is."""

    screened: int
    simulated: int
    objective: str
    unit: str
    best: float | None
    next_bound: float | None
    elapsed_s: float
    doing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One candidate in plain words and figures."""

    plan: dict[str, Any]
    """Device, engine, precision, axes, replicas, batch limits."""
    load: float
    values: dict[str, float]
    """All metrics that are known."""
    share: float
    """Share of requests that keep the objective; NaN where it was not simulated."""
    share_upper: float
    """The same at the upper end of the prediction's interval."""
    quantiles: dict[str, float]
    bounds: dict[str, float]
    """The best that it could have been, by objective."""
    estimate: dict[str, float]
    missed: tuple[str, ...] = ()
    high: dict[str, float] = field(default_factory=dict)
    """By how much measured times may exceed predicted ones, by part of the objective."""
    high_after: dict[str, float] = field(default_factory=dict)
    """The same once one instance has been measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPlan:
    """What a search found."""

    scenario: dict[str, Any]
    """With the best deployment written in, for `serve`."""
    best: Deployment
    result: ServingResult
    """The best deployment, simulated as `serve` does."""
    objectives: tuple[str, ...]
    load_of: str
    """What a load is: rate_per_s, concurrency or given."""
    slo: dict[str, Any]
    upper: bool
    """Whether the best keeps the objective at the upper end of the prediction's interval too."""
    central: Deployment | None
    """The best at the central prediction, where it is another one."""
    simpler: Deployment | None
    """A simpler one that is as good within a hundredth."""
    simpler_scenario: dict[str, Any] | None
    """With it written in."""
    frontier: tuple[Deployment, ...]
    """The best of the simulated ones, one a cut."""
    front: tuple[Deployment, ...]
    """Those that no other beats in all objectives."""
    tried: tuple[Deployment, ...]
    """All that keep the objective at the central prediction, for charts."""
    evaluated: int
    pruned: dict[str, int]
    excluded: dict[str, int]
    proof: Proof
    screened_per_s: float
    """Candidates that got bounds in a second, the pricing of all kinds of instances included."""
    elapsed_s: float
    notes: tuple[str, ...] = field(default_factory=tuple)
    instances: dict[str, Any] = field(default_factory=dict)
    """Instances that a traffic which rises and falls needs at its trough and at its peak (`autoscale_range`)."""
    ends: Ends | None = None
    """Devices at the central prediction and at the upper end of its band; None where one of them was not asked for."""
    measure_next: ServingMeasurement | None = None
    """The run that would settle what lies between them."""
    autoscale: dict[str, Any] = field(default_factory=dict)
    """Bounds of the scenario's autoscaler, and what it holds (`autoscaled`); `best` is that cut at a fixed number."""
    stopped: str | None = None
    """What ended the search before it was complete: `time`, or `interrupted`."""
    searched: dict[str, list[Any]] = field(default_factory=dict)
    """Axis → values that candidates had, of axes with more than one."""
    not_searched: dict[str, str] = field(default_factory=dict)
    """Axis → its value and why it stood still."""

    def _repr_html_(self) -> str:
        from windtunnel.planner import notebook
        from windtunnel.planner.serving.objectives import METRICS
        from windtunnel.serving.results.notebook import figures

        first = self.objectives[0]
        unit = {"money": "US dollars"}.get(METRICS[first].unit, METRICS[first].unit)
        title = first.replace("_", " ")
        value = f"{self.best.values[first]:,.4g} {unit}".strip()
        own = [(title, value), ("load", f"{self.best.load:,.4g}"), *figures(self.result)]
        names = notebook.differing([d.plan for d in self.frontier])
        bars = [(n, d.values[first], f"{d.values[first]:,.4g}") for n, d in zip(names, self.frontier, strict=True)]
        return notebook.html(self.result.scenario_name, own, bars, f"{title}, {unit}" if unit else title)

    def __repr__(self) -> str:
        first = self.objectives[0]
        return f"<search: best {first.replace('_', ' ')} {self.best.values[first]:,.4g} with {self.best.plan}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        out = {
            "schema_version": RESULT_SCHEMA,
            "best": {**asdict(self.best), "result": self.result.to_dict()},
            "scenario": self.scenario,
            "objectives": list(self.objectives),
            "frontier": [asdict(d) for d in self.frontier],
            "front": [asdict(d) for d in self.front],
            "central": self.central and asdict(self.central),
            "simpler": self.simpler and asdict(self.simpler),
            "slo": self.slo,
            "slo_at_upper": self.upper,
            "ends": self.ends and asdict(self.ends),
            "measure_next": self.measure_next and asdict(self.measure_next),
            "load": self.load_of,
            "evaluated": self.evaluated,
            "pruned": self.pruned,
            "excluded": self.excluded,
            "elapsed_s": self.elapsed_s,
            "screened_per_s": self.screened_per_s,
            "proof": {**asdict(self.proof), "complete": self.proof.complete, "gap": self.proof.gap},
            "gap": self.proof.gap,
            "stopped": self.stopped,
            "searched": self.searched,
            "not_searched": self.not_searched,
            "notes": list(self.notes),
            "instances": self.instances,
            "autoscale": self.autoscale,
        }
        return {name: _plain(value) for name, value in out.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value


Report = Callable[[Progress], None]
NOT_UPPER = (
    "no candidate keeps the objective at the upper end of the prediction's interval; the best at the central "
    "prediction is shown"
)
NOT_YET_UPPER = (
    "no candidate that was simulated in time keeps the objective at the upper end of the prediction's interval; the "
    "best at the central prediction is shown"
)
TIME_UP = "time was up before a deployment was found that keeps the objective"


def plan_serving(
    scenario: Scenario,
    lines: Any,
    folder: Path,
    begun: float | None = None,
    *,
    report: Report | None = None,
    time_limit_s: float | None = None,
) -> ServingPlan:
    """The best deployment of a scenario's search space.

    Args:
        scenario: with `serving` and, where not everything is left open, `search`.
        lines: where fields were written.
        folder: that paths are relative to.
        begun: when the search began, by `time.perf_counter`.
        report: called as the search goes on.
        time_limit_s: seconds from `begun` after which the best so far is the answer; None: no end.

    Ctrl-C returns the best so far once there is one.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: nothing keeps the objective; the nearest miss is named.
    """
    begun = time.perf_counter() if begun is None else begun
    question = question_of(scenario, folder, lines)
    objective = question.goals.objectives[0]

    def tell(screened: int, simulated: int = 0, best: float = float("nan"), bound: float = float("nan")) -> None:
        if report:
            known = None if best != best else float(objective.signed(best))
            possible = float(objective.signed(bound)) if np.isfinite(bound) else None
            done = time.perf_counter() - begun
            report(
                Progress(
                    screened=screened,
                    simulated=simulated,
                    objective=objective.name,
                    unit=objective.unit,
                    best=known,
                    next_bound=possible,
                    elapsed_s=done,
                )
            )

    deadline = Deadline(time.perf_counter, begun + (math.inf if time_limit_s is None else time_limit_s))
    runs = Runs(question=question, slo=question.goals.slo)
    building = time.perf_counter()
    kinds = kinds_of(question, runs.longest(loads_of(question, 1)[0]), deadline)
    building = time.perf_counter() - building
    if not kinds.kinds:
        rules = "; ".join(f"{rule} ({n})" for rule, n in kinds.excluded.items())
        most = min(question.wanted.limits.devices or 10**9, max(p.cluster.num_devices for p in question.places))
        rules = rules or f"tp, pp and dp of the space leave no cut within {most} devices"
        raise Infeasible(f"no instance of {question.model.name} can be built: {rules}", kinds.nearest)
    upper = question.wanted.slo_at == "upper" and _has_slo(question)
    one = Searched.of(question, kinds, runs, tell, upper=upper, deadline=deadline)
    notes: list[str] = []
    other: Searched | None = None
    if one.upper and (one.proof.complete or one.found.best is None):
        main = one.found.best is None
        other = Searched.of(question, kinds, runs, tell, upper=False, main=main, deadline=deadline)
        if one.found.best is None and other.found.best is not None:
            notes.append(NOT_UPPER if one.proof.complete else NOT_YET_UPPER)
            one, other = other, None
    if one.found.best is None:
        if not one.proof.complete and not deadline.passed:
            raise KeyboardInterrupt
        central = one if other is None else other
        rule, nearest = nearest_miss(question, kinds.kinds, central.table, runs, central.found)
        raise Infeasible(rule if one.proof.complete else f"{TIME_UP}: {rule}", nearest)
    one = replace(one, took_s=one.took_s + building)
    stopped = None if one.proof.complete else "time" if deadline.passed else "interrupted"
    result = _result(question, kinds, one, other, notes, time.perf_counter() - begun, runs)
    varied = searched(question, kinds.kinds, one.table)
    return replace(result, stopped=stopped, searched=varied, not_searched=not_searched(question, kinds.kinds, varied))


def _has_slo(question: Question) -> bool:
    s = question.goals.slo
    return any(v is not None for v in (s.ttft_s, s.tpot_s, s.e2e_s))


@dataclass(frozen=True, slots=True)
class Searched:
    """One screen and search."""

    table: CandidateTable
    found: Found
    proof: Proof
    upper: bool
    took_s: float

    @classmethod
    def of(
        cls,
        question: Question,
        kinds: Kinds,
        runs: Runs,
        tell: Callable[..., None],
        *,
        upper: bool,
        main: bool = True,
        deadline: Deadline,
    ) -> Searched:
        """Screen and search; the main one also tries other cuts to compare with."""
        search = Search(
            kinds=kinds.kinds,
            runs=runs,
            goals=question.goals,
            upper=upper,
            falling=question.free and len(question.goals.objectives) == 1,
            tell=lambda n, best, bound: tell(search.proof.candidates, n, best, bound),
            deadline=deadline,
        )
        begun, took = time.perf_counter(), 0.0
        for table in screen(question, kinds.kinds, runs, upper=upper, until=deadline):
            took += time.perf_counter() - begun
            tell(search.proof.candidates + len(table))
            search.offer(table)
            begun = time.perf_counter()
        if not len(search.table):
            most = min(question.wanted.limits.devices or 10**9, max(p.cluster.num_devices for p in question.places))
            least = min(k.devices for k in kinds.kinds)
            rule = f"no number of instances of the space (replicas, deployment) fits {most} devices"
            raise Infeasible(rule, f"an instance takes {least} devices or more, a split deployment {2 * least}")
        search.proof.unscreened = kinds.unbuilt or deadline.passed
        found, proof = search.finish()
        if search.falling and found.best is not None and proof.complete:
            each = _between(question, search.table, found.best)
            begun = time.perf_counter()
            finer = list(screen(question, kinds.kinds, runs, upper=upper, each=each))
            took += time.perf_counter() - begun
            found, proof = search.further(CandidateTable.joined(finer))
        if main and len(question.goals.objectives) == 1:
            search.runners_up()
        return cls(search.table, found, proof, upper, took)


def _between(question: Question, table: CandidateTable, best: Evaluated) -> tuple[float, ...]:
    """Loads from the best one's up to the next of the grid, a tenth of the way each; in flight: for each device."""
    load = float(table.load[best.index])
    if question.load == "concurrency":
        load /= float(table.devices[best.index])
    return tuple(float(f"{load * GRID ** (k / FINER):.6g}") for k in range(1, FINER))


def _result(
    question: Question,
    kinds: Kinds,
    one: Searched,
    other: Searched | None,
    notes: list[str],
    elapsed_s: float,
    runs: Runs,
) -> ServingPlan:
    good = sorted((e for e in one.found.evaluated if e.good), key=lambda e: (e.key, _burden(one.table, kinds, e)))
    chosen, scenario, result = _confirmed(question, kinds, one, good, notes)
    simpler = next(
        (
            e
            for e in sorted(good, key=lambda e: _burden(one.table, kinds, e))
            if e.key[0] <= chosen.key[0] + TIE * abs(chosen.key[0])
        ),
        chosen,
    )
    central = None
    if other is not None and other.found.best is not None and other.found.best.key < chosen.key:
        central = _deployment(question, kinds, other, other.found.best, runs)
    cuts: dict[Any, Evaluated] = {}
    for e in good:
        cuts.setdefault((int(one.table.kind[e.index]), int(one.table.answers[e.index])), e)
    top = sorted(cuts.values(), key=lambda e: e.key)[: question.wanted.top]
    proof = one.proof
    pruned = {
        "too_slow": proof.too_slow,
        "too_much": proof.too_much,
        "limits": proof.limits,
        "bound": proof.bound,
        "load": proof.load,
        "settled": proof.settled,
        "refused": proof.refused,
    }
    written = written_in(question, kinds.kinds, one.table, simpler.index).model_dump(mode="json", exclude_unset=True)
    bounds: dict[str, Any] = {}
    if question.autoscale is not None:
        scalable = [chosen, *(e for e in top if e.index != chosen.index)]
        choices = [
            (one.table.at(kinds.kinds, e.index), written_in(question, kinds.kinds, one.table, e.index))
            for e in scalable
        ]
        scaled = autoscaled(question, choices, lambda s: _served(question, s), upper=one.upper)
        if scaled is None:
            notes.append("no bounds of serving.autoscale keep the objective: a fixed number of instances is shown")
        else:
            chosen, result, bounds = scalable[scaled.place], scaled.result, scaled.figures()
            scenario = scaled.scenario.model_dump(mode="json", exclude_unset=True)

    def shown(e: Evaluated) -> Deployment:
        return _deployment(question, kinds, one, e, runs)

    tried = _tried(question, kinds, (one, other), runs)
    ends = _ends(question, one, other, shown(chosen), central)
    central_best = central or shown(chosen)
    engine = str(central_best.plan["engine"])
    following = measure_next(ends, central_best, tried, question.goals.slo, engine) if ends else None
    apart = _burden(one.table, kinds, simpler) < _burden(one.table, kinds, chosen)
    return ServingPlan(
        scenario=scenario,
        best=shown(chosen),
        result=result,
        objectives=tuple(m.name for m in question.goals.objectives),
        load_of=question.load,
        slo=question.goals.slo.model_dump(mode="json"),
        upper=one.upper,
        central=central,
        simpler=shown(simpler) if apart else None,
        simpler_scenario=written if apart else None,
        frontier=tuple(shown(e) for e in top),
        front=tuple(shown(e) for e in sorted(one.found.front, key=lambda e: e.key)),
        tried=tried,
        ends=ends,
        measure_next=following,
        evaluated=runs.simulated,
        pruned=pruned,
        excluded=kinds.excluded,
        proof=proof,
        screened_per_s=len(one.table) / max(one.took_s, 1e-9),
        elapsed_s=elapsed_s,
        notes=tuple(notes),
        instances=instances_needed(question, one.table.at(kinds.kinds, chosen.index), upper=one.upper),
        autoscale=bounds,
    )


def _ends(
    question: Question, one: Searched, other: Searched | None, chosen: Deployment, central: Deployment | None
) -> Ends | None:
    """What both ends of the interval take; None where the upper end was not asked for, or not looked at to the end."""
    if question.wanted.slo_at != "upper" or not _has_slo(question) or (one.upper and other is None):
        return None
    first = question.goals.objectives[0].name
    lower = central or chosen
    return Ends(
        central_devices=int(lower.values["devices"]),
        upper_devices=int(chosen.values["devices"]) if one.upper else None,
        central=lower.values[first],
        upper=chosen.values[first] if one.upper else None,
    )


def _tried(
    question: Question, kinds: Kinds, searches: tuple[Searched | None, ...], runs: Runs
) -> tuple[Deployment, ...]:
    """All simulated deployments that keep the objective at the central prediction, each once."""
    out: dict[Any, Deployment] = {}
    for one in (s for s in searches if s is not None):
        for e in one.found.evaluated:
            if not {*e.missed} - {"slo"} and e.trial.share >= question.goals.slo.percentile:
                out.setdefault(one.table.at(kinds.kinds, e.index), _deployment(question, kinds, one, e, runs))
    return tuple(out.values())


def _burden(table: CandidateTable, kinds: Kinds, e: Evaluated) -> tuple[float, ...]:
    """What makes a deployment less simple: kinds of parallelism, limits unlike the engine's, devices of an instance."""
    choice = table.at(kinds.kinds, e.index)
    sides = [choice.kind] if choice.answers is None else [choice.kind, choice.answers]
    parallel = sum((k.plan.pp > 1) + (k.plan.dp > 1) + (k.plan.ep > 1) for k in sides) + len(sides)
    changed = sum(a != b for a, b in zip((choice.sequences, choice.tokens), choice.kind.default, strict=True))
    return float(parallel), float(changed), float(sum(k.devices for k in sides)), -choice.sequences, -choice.tokens


def _confirmed(
    question: Question, kinds: Kinds, one: Searched, good: list[Evaluated], notes: list[str]
) -> tuple[Evaluated, dict[str, Any], ServingResult]:
    """The best that keeps the objective when `serve` simulates its scenario.

    The search prices all batch limits of a kind by one table of iterations; `serve` makes one for each, which differs
    by what lies between two of its points, below 0.5 %.
    """
    for e in good[:20]:
        written = written_in(question, kinds.kinds, one.table, e.index)
        result = _served(question, written)
        if result.slo_met and not result.saturated:
            if e is not good[0]:
                notes.append("better ones kept the objective in the search and missed it by a hair when confirmed")
            return e, written.model_dump(mode="json", exclude_unset=True), result
    written = written_in(question, kinds.kinds, one.table, good[0].index)
    notes.append("the best keeps the objective in the search and misses it by a hair when confirmed")
    return good[0], written.model_dump(mode="json", exclude_unset=True), _served(question, written)


def _served(question: Question, written: Scenario) -> ServingResult:
    """A scenario as `serve` simulates it; files that it names are relative to the question's folder."""
    inline = written.model_copy(update={"model": question.model}) if isinstance(written.model, ModelFile) else written
    d, traffic = with_traffic(replace(prepare(inline), folder=question.folder))
    return serve_requests(d, traffic.requests, assumed=(*question.assumed, *traffic.assumed))


def written_in(question: Question, kinds: list[InstanceType], table: CandidateTable, index: int) -> Scenario:
    """The scenario with a candidate written in."""
    choice = table.at(kinds, index)
    kind = choice.kind
    update: dict[str, Any] = {"pools": choice.pools(question.pool)}
    if question.load != "given":
        value: Any = int(table.load[index]) if question.load == "concurrency" else float(table.load[index])
        update["traffic"] = question.serving.traffic.model_copy(update={question.load: value})
    serving = kind.serving.model_copy(update=update)
    update = {"serving": serving, "cluster": kind.place.reference}
    kept = {n: getattr(question.scenario, n) for n in question.scenario.model_fields_set - {"search", *update}}
    return Scenario.model_construct({*kept, *update}, **kept, **update)


def _deployment(question: Question, kinds: Kinds, one: Searched, e: Evaluated, runs: Runs) -> Deployment:
    table = one.table
    c = table.at(kinds.kinds, e.index)
    at = table.best_of(slice(e.index, e.index + 1))
    bounds = {m.name: float(m.bound(at)[0]) for m in question.goals.objectives}
    names = ("ttft_s", "tpot_s", "tokens_per_s")
    estimate = {n: float(v) for n, v in zip(names, table.estimate[:, e.index], strict=True)}
    found = e.trial
    return Deployment(
        plan=c.axes(),
        load=float(table.load[e.index]),
        values=e.values,
        share=found.share,
        share_upper=found.share_upper,
        quantiles=found.quantiles,
        bounds=bounds,
        estimate=estimate,
        missed=e.missed,
        high=found.high,
        high_after=found.high_after,
    )
