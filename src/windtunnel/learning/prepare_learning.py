"""A scenario with `learning`, looked up and checked: task, algorithms with their knobs, learning rate and target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.catalog.load import load
from windtunnel.catalog.run_tables import failure_profile
from windtunnel.errors import UNSET, BadInput, Problem, ProblemList
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.arrival_clock import clock_fields
from windtunnel.learning.curves import CurveKey, honest_task_of, job_of, under_attack
from windtunnel.learning.drivers.elastic_members import may_be_elastic, round_of
from windtunnel.learning.drivers.outages import Outages
from windtunnel.learning.inner import INNER, InnerKind
from windtunnel.learning.job import Job
from windtunnel.learning.laws import LAWS, Law
from windtunnel.learning.scenario_target import ScenarioTarget, scenario_target
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import Shapes, Task, params_of
from windtunnel.learning.timing.elastic_rounds import ElasticRounds, elastic_rounds
from windtunnel.learning.timing.elastic_timing import elastic_timing
from windtunnel.learning.timing.lock_step import LockStepTiming, time_lock_step
from windtunnel.learning.timing.on_target import with_work_of
from windtunnel.learning.timing.schedule import read_schedule
from windtunnel.machine_memory import require_bytes
from windtunnel.registry import Registry
from windtunnel.scenarios.source import Source
from windtunnel.specs.base import Named
from windtunnel.specs.learning import LearningRateSpec, LearningSpec, SplitSpec
from windtunnel.specs.run import FailureProfile
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import Applied, applied, remarks
from windtunnel.techniques.knobs import named, with_defaults

BASELINE = "data_parallel"
_POINTS = 100
_ROUNDS_READ = 8
"""Rounds of a schedule that are read to find its repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenAlgorithm:
    """An algorithm with its knobs decided."""

    label: str
    """Its id; with the knobs that differ where an id stands several times."""
    kind: AlgorithmKind
    knobs: dict[str, Any]
    given: dict[str, Any]
    """Knobs that the scenario states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLearning:
    """Everything looked up and checked."""

    scenario: Scenario
    spec: LearningSpec
    folder: Path
    task: TaskKind
    algorithms: tuple[ChosenAlgorithm, ...]
    base: CurveKey
    """Key of a curve without its algorithm and seed."""
    shapes: Shapes
    """Tensors of the proxy's model."""
    target: ScenarioTarget
    law: Law | None
    failures: FailureProfile | None
    """Of workers; None: none."""
    assumed: tuple[tuple[str, str, str], ...]
    """(field, value, why)."""
    remarks: tuple[str, ...] = ()
    """On techniques."""
    _elastic: dict[tuple[str, int], ElasticRounds] = field(default_factory=dict, repr=False, compare=False)

    def job(self, key: CurveKey) -> Job:
        """The job of a curve on the tensors of the proxy."""
        return job_of(key, self.shapes)

    def timing(self, algorithm: ChosenAlgorithm) -> LockStepTiming:
        """When the local steps of a lock-step algorithm end on the target, and what they send."""
        key = self.key(algorithm, self.spec.seed)
        target = self.target.target
        built = algorithm.kind.build(job_of(key, target.shapes), dict(algorithm.knobs))
        there = with_work_of(built, target)
        return time_lock_step(built.messages, there, self.spec.workers, self.spec.steps, seed=self.spec.seed)

    def elastic(self, algorithm: ChosenAlgorithm, seed: int) -> ElasticRounds | None:
        """Rounds of a lock-step algorithm whose workers fail and join; None where none does, or it cannot go on.

        Workers have to be alike, and joined by links of their own: a round among n of them takes as long whoever is
        left.
        """
        spec, target = self.spec, self.target.target
        away = self.failures is not None or any(spec.joins)
        if not away or algorithm.kind.driver == "arrivals" or not self.target.timed or spec.speeds is not None:
            return None
        link = target.link
        if link is not None and (link.site is not None or link.latency_spread):
            return None
        key = (algorithm.label, seed)
        if key not in self._elastic:
            job = job_of(replace(self.base, seed=seed), target.shapes)
            built = algorithm.kind.build(job, dict(algorithm.knobs))
            if not may_be_elastic(built):
                return None
            period = round_of(built)
            joins = np.zeros(spec.workers)
            joins[: len(spec.joins)] = spec.joins[: spec.workers]
            outages = Outages(self.failures, job.draws, self.target.nodes, self.target.devices_per_node, joins)
            schedule = read_schedule(built.messages, _ROUNDS_READ * period)
            there, rounds = with_work_of(built, target), -(-spec.steps // period)
            self._elastic[key] = elastic_rounds(schedule, there, spec.workers, rounds, outages, seed=seed)
        return self._elastic[key]

    def elastic_timing(self, algorithm: ChosenAlgorithm, seed: int, rounds: ElasticRounds) -> LockStepTiming:
        """The clock of rounds whose workers fail and join."""
        target = self.target.target
        built = algorithm.kind.build(job_of(replace(self.base, seed=seed), target.shapes), dict(algorithm.knobs))
        return elastic_timing(rounds, built.messages, with_work_of(built, target), self.spec.steps, seed=seed)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs."""
        return tuple(range(self.spec.seed, self.spec.seed + self.spec.seeds))

    @property
    def baseline(self) -> ChosenAlgorithm | None:
        """Plain data parallelism among the algorithms, which the others are compared with."""
        return next((a for a in self.algorithms if a.kind.id == BASELINE), None)

    def key(self, algorithm: ChosenAlgorithm, seed: int) -> CurveKey:
        """Key of the curve of an algorithm from a seed."""
        key = replace(self.base, algorithm=algorithm.kind.id, algorithm_knobs=algorithm.knobs, seed=seed)
        if algorithm.kind.driver != "arrivals":
            rounds = self.elastic(algorithm, seed)
            return key if rounds is None else replace(key, clock=rounds.members())
        t = self.target
        nodes = (t.nodes, t.devices_per_node)
        return replace(key, clock=clock_fields(self.spec, t.target.shapes, t.target.step_s, self.failures, nodes))


def prepare_learning(source: Source, overrides: tuple[str, ...] = ()) -> PreparedLearning:
    """Look a scenario's learning section up.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.

    Raises:
        BadInput: everything wrong with it, at once.
    """
    scenario, lines, folder = load(source, overrides)
    problems = ProblemList(lines)
    spec = scenario.learning
    if spec is None:
        problems.add("learning", UNSET, "is required for `learn`: a task, workers and algorithms")
        problems.raise_if_any()
        raise AssertionError("unreachable")
    assumed: list[tuple[str, str, str]] = []
    law = task = None
    failures = None if isinstance(spec.failures, str) else spec.failures
    if isinstance(spec.failures, str) and spec.failures != "none":
        with problems.below("learning.failures"):
            failures = failure_profile(spec.failures, "learning.failures")
    chosen = applied(scenario.techniques, problems)
    algorithms = chosen_algorithms(spec, chosen, problems)
    base = _base_key(spec, folder, assumed, problems)
    with problems.below("learning.law"):
        law = None if spec.law is None else LAWS.get(spec.law, "learning.law")
    with problems.below("learning.task"):
        task = None if base is None else honest_task_of(base)
    shapes = () if task is None else task.shapes
    if base is not None and task is not None:
        with problems.below("learning.attack"):
            under_attack(task, base)
        with problems.below("learning.workers"):
            _require_memory(spec, shapes, algorithms)
    problems.extend(_inconsistent(spec, algorithms, task, base))
    target = scenario_target(scenario, chosen, shapes, folder, problems)
    problems.raise_if_any()
    assert target is not None and base is not None
    _assumed_clock(target, algorithms, assumed)
    return PreparedLearning(
        scenario=scenario,
        spec=spec,
        folder=folder,
        task=TASKS.get(base.task),
        algorithms=algorithms,
        base=base,
        shapes=shapes,
        target=target,
        law=law,
        failures=failures,
        assumed=tuple(assumed),
        remarks=remarks(chosen, scenario, "learning"),
    )


def _base_key(
    spec: LearningSpec, folder: Path, assumed: list[tuple[str, str, str]], problems: ProblemList
) -> CurveKey | None:
    """Key of a curve without its algorithm; None where task or inner optimizer cannot be."""
    before = len(problems)
    task, task_knobs = _looked_up(TASKS, spec.task, "learning.task", problems)
    if task_knobs.get("file"):  # next to the scenario, as all its files are
        task_knobs["file"] = str(folder / str(task_knobs["file"]))
    inner, inner_knobs = _looked_up(INNER, spec.inner, "learning.inner", problems)
    split, split_value = _split(spec)
    if task is not None and isinstance(spec.split, SplitSpec) and split not in task.splits:
        problems.add("learning.split", split, f"task {task.id} has {' and '.join(task.splits)} only")
    lr = learning_rate_fields(spec, inner, assumed)
    if len(problems) > before or task is None or inner is None:
        return None
    return CurveKey(
        task=task.id,
        task_knobs=task_knobs,
        workers=spec.workers,
        steps=spec.steps,
        batch=spec.batch,
        algorithm="",
        algorithm_knobs={},
        inner=inner.id,
        inner_knobs=inner_knobs,
        lr=lr,
        split=split,
        split_value=split_value,
        seed=spec.seed,
        evaluate_every=spec.evaluate_every or max(1, spec.steps // _POINTS),
        attack=spec.attack.model_dump() if spec.attack else {},
    )


def _looked_up(registry: Registry[Any], value: Named, field: str, problems: ProblemList) -> tuple[Any, dict[str, Any]]:
    """The entry that a field names and its knobs; (None, {}) where that cannot be."""
    name, given = named(value)
    if isinstance(value, dict) and len(value) != 1:
        problems.add(field, value, f"must name one {registry.noun}")
        return None, {}
    kind = None
    with problems.below(field):
        kind = registry.get(name, field)
    if kind is None:
        return None, {}
    return kind, with_defaults(kind.knobs, given, f"{field}.{name}", problems)


def chosen_algorithms(
    spec: LearningSpec, chosen: tuple[Applied, ...], problems: ProblemList
) -> tuple[ChosenAlgorithm, ...]:
    """Algorithms with labels that tell them apart; those of techniques that are not listed come last."""
    if not spec.algorithms:
        problems.add("learning.algorithms", UNSET, "must name one algorithm or more")
    found: list[tuple[AlgorithmKind, dict[str, Any], dict[str, Any]]] = []
    for at, entry in enumerate(spec.algorithms):
        for name, stated in ({entry: {}} if isinstance(entry, str) else entry).items():
            where, given = f"learning.algorithms.{at}", dict(stated or {})
            refused = _refused_knobs(name, given)
            problems.extend(Problem(f"{where}.{name}.{knob}", rule, given[knob]) for knob, rule in refused.items())
            one = {name: {knob: value for knob, value in given.items() if knob not in refused}}
            kind, knobs = _looked_up(ALGORITHMS, one, where, problems)
            if kind is not None:
                found.append((kind, knobs, given))
    listed = {kind.id for kind, _, _ in found}
    for item in chosen:
        name = item.technique.algorithm
        if not name or name in listed:
            continue
        known = ALGORITHMS.get(name).knobs if name in ALGORITHMS else {}
        given = {knob: value for knob, value in item.knobs.items() if knob in known}
        kind, knobs = _looked_up(ALGORITHMS, {name: given}, f"techniques.{item.technique.id}", problems)
        if kind is not None:
            found.append((kind, knobs, given))
    counts = Counter(kind.id for kind, _, _ in found)
    out: list[ChosenAlgorithm] = []
    for kind, knobs, given in found:
        label = kind.id if counts[kind.id] == 1 else _label(kind.id, given)
        if any(a.label == label for a in out):
            problems.add("learning.algorithms", label, "is given twice")
            continue
        out.append(ChosenAlgorithm(label=label, kind=kind, knobs=knobs, given=given))
    return tuple(out)


def _refused_knobs(name: str, given: dict[str, Any]) -> dict[str, str]:
    """Knobs that only asynchronous algorithms have, given to one whose workers wait → why they are refused."""
    if name not in ALGORITHMS or ALGORITHMS.get(name).driver == "arrivals":
        return {}
    owners = {knob: _of_asynchronous_algorithms(knob) for knob in given if knob not in ALGORITHMS.get(name).knobs}
    why = f"workers of {name} wait for each other, so nothing is late; asynchronous are "
    return {knob: why + ", ".join(ids) for knob, ids in owners.items() if ids}


def _label(name: str, given: dict[str, Any]) -> str:
    """An id with the knobs that were stated."""
    told = ", ".join(_knob_text(knob, value) for knob, value in given.items())
    return f"{name} ({told})" if told else name


def _knob_text(knob: str, value: Any) -> str:
    """A knob with its value, and the value's own knobs where it is a mapping: `compressor topk (fraction 0.01)`."""
    if isinstance(value, dict):
        value = ", ".join(_label(inner, own if isinstance(own, dict) else {}) for inner, own in value.items())
    return f"{knob} {value}"


def _split(spec: LearningSpec) -> tuple[str, float]:
    """(way, value) of giving samples to workers."""
    if not isinstance(spec.split, SplitSpec):
        return "iid", 0.0
    way, value = (
        ("dirichlet", spec.split.dirichlet) if spec.split.dirichlet is not None else ("labels", spec.split.labels)
    )
    return way, float(value or 0.0)


def _inconsistent(
    spec: LearningSpec, algorithms: tuple[ChosenAlgorithm, ...], task: Task | None, base: CurveKey | None
) -> Iterator[Problem]:
    """What does not go together; of the task only where it can be built."""
    yield from _attack_problems(spec, algorithms)
    if base is not None and task is not None:
        yield from _goal_problems(spec, task)
        yield from _build_problems(spec, algorithms, job_of(base, task.shapes))


def _attack_problems(spec: LearningSpec, algorithms: tuple[ChosenAlgorithm, ...]) -> Iterator[Problem]:
    """Attackers have to be fewer than the workers, and know all honest gradients where they use them."""
    if spec.attack is None:
        return
    if spec.attack.workers >= spec.workers:
        rule = f"has to leave honest workers; allowed: 1 to {spec.workers - 1}"
        yield Problem("learning.attack.workers", rule, spec.attack.workers)
    late = [a.label for a in algorithms if a.kind.driver == "arrivals"]
    if spec.attack.kind == "alie" and late:
        rule = f"needs the gradients of all workers at once, and those of {', '.join(late)} arrive one by one"
        yield Problem("learning.attack.kind", f"{rule}; allowed: sign_flip, random, scaled, label_flip", "alie")


def learning_rate_fields(
    spec: LearningSpec, inner: InnerKind | None, assumed: list[tuple[str, str, str]]
) -> dict[str, Any]:
    """Fields of the learning rate, the optimizer's own where none is stated."""
    if isinstance(spec.lr, LearningRateSpec):
        return {**spec.lr.model_dump(), "steps": spec.steps}
    peak = spec.lr
    if peak is None:
        peak = inner.lr if inner is not None else 1e-3
        assumed.append(("learning.lr", f"{peak:g}", f"not stated; the default of {inner.id if inner else 'it'}"))
    return {"peak": float(peak), "steps": spec.steps}


_PARTICIPANTS = ("active", "concurrency", "contributors")
"""Knobs that say how many workers take part at a time."""


def _build_problems(spec: LearningSpec, algorithms: tuple[ChosenAlgorithm, ...], job: Job) -> Iterator[Problem]:
    """Build every algorithm once, so that what does not go together is reported before anything is learned."""
    for at, algorithm in enumerate(algorithms):
        for knob in _PARTICIPANTS:
            asked = algorithm.knobs.get(knob)
            if isinstance(asked, int) and asked > spec.workers:
                where = f"learning.algorithms.{at}.{algorithm.kind.id}.{knob}"
                yield Problem(where, f"there are {spec.workers} workers (learning.workers)", asked)
        try:
            algorithm.kind.build(job, dict(algorithm.knobs))
        except BadInput as error:
            own = f"learning.algorithms.{algorithm.kind.id}"
            listed = at < len(spec.algorithms)
            where = f"learning.algorithms.{at}.{algorithm.kind.id}" if listed else f"techniques.{algorithm.kind.id}"
            for problem in error.problems:
                inside = problem.field.removeprefix(own).strip(".")
                yield replace(problem, field=f"{where}.{inside}".strip("."))


def _assumed_clock(
    target: ScenarioTarget, algorithms: tuple[ChosenAlgorithm, ...], assumed: list[tuple[str, str, str]]
) -> None:
    """What the clock takes for granted."""
    late = [a.label for a in algorithms if a.kind.driver == "arrivals"]
    if late and not target.timed:
        why = f"not stated; the order in which uploads of {', '.join(late)} arrive depends on it"
        assumed.append(("learning.step_s", "1", why))


def _goal_problems(spec: LearningSpec, task: Task) -> Iterator[Problem]:
    """Targets that no curve of the task can reach."""
    if spec.target is None:
        return
    if spec.target.metric is not None and not task.metric:
        yield Problem("learning.target.metric", "the task has no metric; state a loss", spec.target.metric)
    if spec.target.loss is not None and task.floor is not None and spec.target.loss < task.floor:
        rule = f"no parameters reach less than {task.floor:.6g} on this task"
        yield Problem("learning.target.loss", rule, spec.target.loss)


_COPIES = 8
"""Rows of parameters that a worker takes: parameters, gradient, two moments, difference, feedback, and room."""


def _require_memory(spec: LearningSpec, shapes: Shapes, algorithms: tuple[ChosenAlgorithm, ...]) -> None:
    """Refuse more workers than there is memory for; asynchronous ones hold only the rounds that are on their way."""
    if all(a.kind.driver == "arrivals" for a in algorithms):
        return
    parameters = params_of(shapes)
    nbytes = 8.0 * _COPIES * spec.workers * parameters
    what = f"the states of {spec.workers:,} workers with {parameters:,} parameters each"
    require_bytes(nbytes, "learning.workers", what, spec.workers)


def _of_asynchronous_algorithms(knob: str) -> tuple[str, ...]:
    """Ids of the asynchronous algorithms that have a knob."""
    return tuple(id for id, kind in ALGORITHMS.items() if kind.driver == "arrivals" and knob in kind.knobs)
