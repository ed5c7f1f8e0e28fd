"""A scenario with `learning`, looked up and checked: task, algorithms with their knobs, learning rate and target."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from windtunnel.catalog.load import load
from windtunnel.catalog.run_tables import failure_profile
from windtunnel.errors import UNSET, BadInput, ProblemList, attempt
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.arrival_clock import clock_fields
from windtunnel.learning.curves import CurveKey, job_of, task_of
from windtunnel.learning.inner import INNER, InnerKind
from windtunnel.learning.job import Job
from windtunnel.learning.knobs import with_defaults
from windtunnel.learning.scenario_target import ScenarioTarget, scenario_target
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import Shapes
from windtunnel.learning.timing.lock_step import LockStepTiming, time_lock_step
from windtunnel.registry import Registry
from windtunnel.specs.base import Named, named
from windtunnel.specs.learning import LearningRateSpec, LearningSpec, SplitSpec
from windtunnel.specs.run import FailureProfile
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.source import Source
from windtunnel.techniques import Applied, applied, remarks

BASELINE = "data_parallel"
_POINTS = 100


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
    failures: FailureProfile | None
    """Of workers; None: none."""
    assumed: tuple[tuple[str, str, str], ...]
    """(field, value, why)."""
    remarks: tuple[str, ...] = ()
    """On techniques."""

    def job(self, key: CurveKey) -> Job:
        """The job of a curve on the tensors of the proxy."""
        return job_of(key, self.shapes)

    def timing(self, algorithm: ChosenAlgorithm) -> LockStepTiming:
        """When the local steps of a lock-step algorithm end on the target, and what they send."""
        key = self.key(algorithm, self.spec.seed)
        target = self.target.target
        built = algorithm.kind.build(job_of(key, target.shapes), dict(algorithm.knobs))
        return time_lock_step(built.messages, target, self.spec.workers, self.spec.steps, seed=self.spec.seed)

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
            return key
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
    task, task_knobs = _looked_up(TASKS, spec.task, "learning.task", problems)
    inner, inner_knobs = _looked_up(INNER, spec.inner, "learning.inner", problems)
    chosen = applied(scenario.techniques, problems)
    algorithms = _algorithms(spec, chosen, problems)
    split, split_value = _split(spec, task, problems)
    lr = _learning_rate(spec, inner, assumed)
    problems.raise_if_any()
    assert task is not None and inner is not None
    every = spec.evaluate_every or max(1, spec.steps // _POINTS)
    base = CurveKey(
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
        evaluate_every=every,
    )
    built = attempt("learning.task", lambda: task_of(base), problems)
    task_shapes = built.shapes if built is not None else ()
    target = scenario_target(scenario, spec, task_shapes, folder, problems)
    failures = attempt("learning.failures", lambda: _failures(spec), problems)
    problems.raise_if_any()
    assert target is not None
    _assumed_clock(target, algorithms, assumed)
    prepared = PreparedLearning(
        scenario=scenario,
        spec=spec,
        folder=folder,
        task=task,
        algorithms=algorithms,
        base=base,
        shapes=task_shapes,
        target=target,
        failures=failures,
        assumed=tuple(assumed),
        remarks=remarks(chosen, scenario, "learning"),
    )
    _build_all(prepared, problems)
    problems.raise_if_any()
    return prepared


def _looked_up(registry: Registry[Any], value: Named, field: str, problems: ProblemList) -> tuple[Any, dict[str, Any]]:
    """The entry that a field names and its knobs; (None, {}) where that cannot be."""
    if isinstance(value, dict) and len(value) != 1:
        problems.add(field, value, f"must name one {registry.noun}")
        return None, {}
    name, given = named(value)
    kind = attempt(field, lambda: registry.get(name, field), problems)
    if kind is None:
        return None, {}
    return kind, with_defaults(kind.knobs, given, f"{field}.{name}", problems)


def _algorithms(spec: LearningSpec, chosen: tuple[Applied, ...], problems: ProblemList) -> tuple[ChosenAlgorithm, ...]:
    """Algorithms with labels that tell them apart; those of techniques that are not listed come last."""
    if not spec.algorithms:
        problems.add("learning.algorithms", UNSET, "must name one algorithm or more")
    found: list[tuple[AlgorithmKind, dict[str, Any], dict[str, Any]]] = []
    for at, entry in enumerate(spec.algorithms):
        for name, given in ({entry: {}} if isinstance(entry, str) else entry).items():
            where = f"learning.algorithms.{at}"
            one = {name: given or {}}
            kind, knobs = _looked_up(ALGORITHMS, one, where, problems)
            if kind is not None:
                found.append((kind, knobs, dict(given or {})))
    listed = {kind.id for kind, _, _ in found}
    for item in chosen:
        name = item.technique.algorithm
        if not name or name in listed:
            continue
        kind = attempt("techniques", partial(ALGORITHMS.get, name, "techniques"), problems)
        if kind is not None:
            given = {knob: value for knob, value in item.knobs.items() if knob in kind.knobs}
            found.append((kind, with_defaults(kind.knobs, given, f"techniques.{item.technique.id}", problems), given))
    counts = Counter(kind.id for kind, _, _ in found)
    out: list[ChosenAlgorithm] = []
    for kind, knobs, given in found:
        label = kind.id if counts[kind.id] == 1 else _label(kind.id, given)
        if any(a.label == label for a in out):
            problems.add("learning.algorithms", label, "is given twice")
            continue
        out.append(ChosenAlgorithm(label=label, kind=kind, knobs=knobs, given=given))
    return tuple(out)


def _label(name: str, given: dict[str, Any]) -> str:
    """An id with the knobs that were stated."""
    told = ", ".join(f"{knob} {value}" for knob, value in given.items())
    return f"{name} ({told})" if told else name


def _split(spec: LearningSpec, task: TaskKind | None, problems: ProblemList) -> tuple[str, float]:
    """(way, value) of giving samples to workers."""
    if not isinstance(spec.split, SplitSpec):
        return "iid", 0.0
    way, value = (
        ("dirichlet", spec.split.dirichlet) if spec.split.dirichlet is not None else ("labels", spec.split.labels)
    )
    if task is not None and way not in task.splits:
        rule = f"task {task.id} has {' and '.join(task.splits)} only"
        problems.add("learning.split", way, rule)
    return way, float(value or 0.0)


def _learning_rate(spec: LearningSpec, inner: InnerKind | None, assumed: list[tuple[str, str, str]]) -> dict[str, Any]:
    """Fields of the learning rate, the optimizer's own where none is stated."""
    if isinstance(spec.lr, LearningRateSpec):
        return {**spec.lr.model_dump(), "steps": spec.steps}
    peak = spec.lr
    if peak is None:
        peak = inner.lr if inner is not None else 1e-3
        assumed.append(("learning.lr", f"{peak:g}", f"not stated; the default of {inner.id if inner else 'it'}"))
    return {"peak": float(peak), "steps": spec.steps}


def _build_all(x: PreparedLearning, problems: ProblemList) -> None:
    """Build every algorithm once, so that what does not go together is said before anything is learned."""
    job = job_of(x.base, x.shapes)
    for at, algorithm in enumerate(x.algorithms):
        try:
            algorithm.kind.build(job, dict(algorithm.knobs))
        except BadInput as error:
            own = f"learning.algorithms.{algorithm.kind.id}"
            listed = at < len(x.spec.algorithms)
            where = f"learning.algorithms.{at}.{algorithm.kind.id}" if listed else f"techniques.{algorithm.kind.id}"
            for problem in error.problems:
                inside = problem.field.removeprefix(own).strip(".")
                field = f"{where}.{inside}".strip(".")
                problems.extend([replace(problem, field=field)])


def _failures(spec: LearningSpec) -> FailureProfile | None:
    """The failure profile of workers, looked up."""
    if isinstance(spec.failures, str):
        return None if spec.failures == "none" else failure_profile(spec.failures, "learning.failures")
    return spec.failures


def _assumed_clock(
    target: ScenarioTarget, algorithms: tuple[ChosenAlgorithm, ...], assumed: list[tuple[str, str, str]]
) -> None:
    """What the clock takes for granted."""
    late = [a.label for a in algorithms if a.kind.driver == "arrivals"]
    if late and not target.timed:
        why = f"not stated; the order in which uploads of {', '.join(late)} arrive depends on it"
        assumed.append(("learning.step_s", "1", why))
