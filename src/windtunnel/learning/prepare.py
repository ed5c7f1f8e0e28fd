"""A scenario with `learning`, looked up and checked: task, algorithms with their knobs, learning rate and target."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from windtunnel.catalog.load import load
from windtunnel.errors import UNSET, ProblemList, attempt
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.curves import CurveKey, job_of, task_of
from windtunnel.learning.inner import INNER, InnerKind
from windtunnel.learning.knobs import with_defaults
from windtunnel.learning.plain_clock import Clock, TargetModel, plain_clock
from windtunnel.learning.tasks import TASKS, TaskKind
from windtunnel.learning.tasks.base import Shapes, params_of
from windtunnel.registry import Registry
from windtunnel.specs.base import Named, named
from windtunnel.specs.learning import LearningRateSpec, LearningSpec, SplitSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.source import Source

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
    target: TargetModel
    assumed: tuple[tuple[str, str, str], ...]
    """(field, value, why)."""

    def target_figures(self) -> dict[str, Any]:
        """What is timed, as plain data."""
        t = self.target
        names = ("model", "parameters", "step_s", "source", "grade", "step_watts", "idle_watts", "dollars_per_hour")
        return {name: getattr(t, name) for name in names}

    def clock(self, algorithm: ChosenAlgorithm) -> Clock:
        """When the local steps of an algorithm end on the target."""
        key = self.key(algorithm, self.spec.seed)
        built = algorithm.kind.build(job_of(key, self.shapes), dict(algorithm.knobs))
        return plain_clock(built, self.target, self.spec.link, self.spec.workers, self.spec.steps)

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
        return replace(self.base, algorithm=algorithm.kind.id, algorithm_knobs=algorithm.knobs, seed=seed)


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
    algorithms = _algorithms(spec, problems)
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
    problems.raise_if_any()
    task_shapes = built.shapes
    prepared = PreparedLearning(
        scenario=scenario,
        spec=spec,
        folder=folder,
        task=task,
        algorithms=algorithms,
        base=base,
        shapes=task_shapes,
        target=_target(scenario, spec, task_shapes, folder, assumed, problems),
        assumed=tuple(assumed),
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


def _algorithms(spec: LearningSpec, problems: ProblemList) -> tuple[ChosenAlgorithm, ...]:
    """Algorithms with labels that tell them apart."""
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
    """Build the task and every algorithm once, so that what does not go together is said before anything is learned."""
    job = job_of(x.base, x.shapes)
    for at, algorithm in enumerate(x.algorithms):
        where = f"learning.algorithms.{at}"

        def build(algorithm: ChosenAlgorithm = algorithm) -> Any:
            return algorithm.kind.build(job, dict(algorithm.knobs))

        attempt(where, build, problems)


def _target(
    scenario: Scenario,
    spec: LearningSpec,
    shapes: Shapes,
    folder: Path,
    assumed: list[tuple[str, str, str]],
    problems: ProblemList,
) -> TargetModel:
    """What is timed."""
    del scenario, folder, assumed, problems
    parameters = spec.parameters
    own = ((int(parameters),),) if parameters else shapes
    return TargetModel(
        model="",
        parameters=float(params_of(own)),
        shapes=own,
        step_s=spec.step_s,
        source="learning.step_s",
        grade="assumed",
        step_watts=spec.step_watts,
        idle_watts=spec.idle_watts,
    )
