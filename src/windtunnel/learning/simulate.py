"""Learning from its scenario to its result: curves are learned or taken from before, then put on the target's clock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from windtunnel.learning import curves
from windtunnel.learning.algorithm_figures import algorithm_figures, algorithm_run
from windtunnel.learning.curve_process import learn_apart
from windtunnel.learning.curves import CurveKey, Learned
from windtunnel.learning.gate import gate_keys, verdicts
from windtunnel.learning.laws import LawCase
from windtunnel.learning.prepare_learning import PreparedLearning, prepare_learning
from windtunnel.learning.records import AlgorithmFigures
from windtunnel.learning.results import LearningResult
from windtunnel.scenarios.source import Source

Report = Callable[[int, int], None]
"""Called with curves learned and curves in all."""
POOL_PAYS_S = 3.0
"""Seconds of learning that are left from which on other processes are worth their start."""


@dataclass(slots=True)
class Learning:
    """What is learned, and how fast."""

    found: dict[str, Learned] = field(default_factory=dict)
    """Digest of a key → its curve."""
    interrupted: bool = False

    def of(self, key: CurveKey) -> Learned | None:
        """The curve of a key, None where the user stopped before it."""
        return self.found.get(key.digest())

    @property
    def worker_steps_per_s(self) -> float | None:
        """Steps of workers in a second of one process; None where nothing was learned anew."""
        seconds = sum(x.seconds for x in self.found.values())
        fresh = sum(x.worker_steps for x in self.found.values() if x.seconds > 0)
        return fresh / seconds if seconds > 0 else None


def simulate_learning(
    source: Source, *, overrides: Sequence[str] = (), cache: bool = True, report: Report | None = None
) -> LearningResult:
    """Train with every algorithm of a scenario for real, and time each on its target.

    Args:
        source: Path of a scenario file with a `learning` section, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        cache: Whether curves that were learned before are taken, and new ones kept.
        report: Called as curves are learned. Ctrl-C ends learning, and the result has the curves until then.

    Raises:
        BadInput: everything wrong with the scenario, at once.

    Example:
        >>> from windtunnel import api
        >>> r = api.simulate_learning("examples/learning/diloco-1b-four-sites.yaml")  # doctest: +SKIP
    """
    from windtunnel import __version__

    begun = time.perf_counter()
    x = prepare_learning(source, tuple(overrides))
    wanted = [x.key(a, seed) for seed in x.seeds for a in x.algorithms] + gate_keys(x)
    learning = learn_all(wanted, cache=cache, report=report)
    return _result(x, learning, __version__, begun)


def learn_all(keys: Sequence[CurveKey], *, cache: bool = True, report: Report | None = None) -> Learning:
    """Learn curves, each in one process and on one thread; several at once where that is worth it.

    Args:
        keys: What to learn.
        cache: Whether curves learned before are taken, and new ones kept.
        report: Called with curves done and all.
    """
    out = Learning()
    missing: list[CurveKey] = []
    for key in keys:
        before = curves.kept(key) if cache else None
        if before is not None:
            out.found[key.digest()] = before
        elif key.digest() not in {k.digest() for k in missing}:
            missing.append(key)
    total = len(missing)

    def done(key: CurveKey, learned: Learned) -> None:
        out.found[key.digest()] = learned
        if cache:
            curves.keep(key, learned)
        if report is not None:
            report(total - len(missing), total)

    try:
        slowest = 0.0
        while missing:
            if slowest * len(missing) > POOL_PAYS_S and len(missing) > 1 and _cores() > 1:
                _in_processes(missing, done)
                break
            key = missing.pop(0)
            learned = curves.learn_curve(key)
            slowest = max(slowest, learned.seconds)
            done(key, learned)
    except KeyboardInterrupt:
        out.interrupted = True
        if not out.found:
            raise
    return out


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_processes(missing: list[CurveKey], done: Callable[[CurveKey, Learned], None]) -> None:
    """Learn what is missing in processes of their own; a curve is handed over as soon as it is there."""
    keys = list(missing)
    pool = ThreadPoolExecutor(min(_cores(), len(keys)))
    try:
        running = {pool.submit(learn_apart, key): key for key in keys}
        while running:
            ready, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            for one in ready:
                key = running.pop(one)
                learned = one.result() or curves.learn_curve(key)
                missing.remove(key)
                done(key, learned)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _result(x: PreparedLearning, learning: Learning, version: str, begun: float) -> LearningResult:
    """Curves on the clock, and the figures of each algorithm."""
    runs = [
        algorithm_run(x, a, [(s, one) for s in x.seeds if (one := learning.of(x.key(a, s))) is not None])
        for a in x.algorithms
    ]
    baseline = next((r for r in runs if r.algorithm is x.baseline), None)
    judged = verdicts(x, runs, learning.of)
    figures = tuple(algorithm_figures(x, run, baseline, judged.get(run.algorithm.label)) for run in runs)
    warnings = [*x.remarks]
    warnings += [
        f"{a.label}, seed {seed}: the loss was not finite at step {step:,}; results up to there are kept"
        for a in figures
        for seed, step in a.diverged
    ]
    warnings += [_never_exchanged(a, x.spec.steps) for a in figures if _alone(a, x.spec.workers)]
    if learning.interrupted:
        warnings.append("stopped: curves are those that were learned until then")
    task = curves.task_of(x.base)
    return LearningResult(
        scenario_name=x.scenario.name or f"{x.task.id} on {x.spec.workers} workers",
        task=x.task.id,
        metric=task.metric,
        floor=task.floor,
        workers=x.spec.workers,
        steps=x.spec.steps,
        seeds=x.seeds,
        curves=tuple(c for run in runs for c in run.curves),
        algorithms=figures,
        goal=_goal(x),
        target=x.target.figures(),
        law=_law(x),
        worker_steps_per_s=learning.worker_steps_per_s,
        assumed=x.assumed,
        warnings=tuple(warnings),
        notes=_notes(x, figures),
        grades=_grades(x),
        interrupted=learning.interrupted,
        scenario=x.scenario.model_dump(mode="json", exclude_unset=True),
        citations=tuple(dict.fromkeys(a.kind.source for a in x.algorithms if a.kind.source)),
        version=version,
        simulated_in_s=time.perf_counter() - begun,
    )


def _alone(a: AlgorithmFigures, workers: int) -> bool:
    """Whether workers ran to the end and never met."""
    return workers > 1 and a.rounds == 0 and a.loss is not None and not a.diverged


def _never_exchanged(a: AlgorithmFigures, steps: int) -> str:
    """What is stated of a run that is shorter than a round: its loss is that of the start."""
    period = a.knobs.get("period")
    rounds = f"; a round is {period:,} steps (`period`)" if isinstance(period, int) else ""
    return f"{a.label}: workers exchanged nothing in {steps:,} steps{rounds}, so its loss and time say nothing of it"


def _notes(x: PreparedLearning, figures: tuple[AlgorithmFigures, ...]) -> tuple[str, ...]:
    """What a reader has to know of the figures."""
    out = ["the small task orders algorithms; its losses, and gaps between them, are not those of a larger model"]
    out += [f"{a.label}: {note}" for a in figures for note in a.notes]
    if x.target.timed and x.spec.link is None and x.spec.workers > 1:
        out.append("no learning.link is stated, so messages take no time: hours are those of the steps alone")
    fixed = [a.label for a in x.algorithms if a.kind.driver != "arrivals" and x.elastic(a, x.spec.seed) is None]
    why = (
        "only asynchronous algorithms go on without some workers, and those whose workers exchange nothing but whole "
        "parameters once a round, where workers are alike, stand in no sites, and `step_s` or a model gives seconds"
    )
    if x.failures is not None and fixed:
        out.append(f"{', '.join(fixed)} run without failures: {why}")
    if any(x.spec.joins) and fixed:
        out.append(f"in {', '.join(fixed)} nobody can join late, all are there: {why}")
    return tuple(out)


def _law(x: PreparedLearning) -> dict[str, Any]:
    """What a published law says of each algorithm at the target's size, and of which it says nothing."""
    if x.law is None:
        return {}
    losses: dict[str, float] = {}
    outside: dict[str, str] = {}
    for a in x.algorithms:
        period = a.knobs.get("period")
        case = LawCase(
            parameters=float(x.target.target.parameters),
            workers=x.spec.workers,
            algorithm=a.kind.id,
            period=period if isinstance(period, int) else None,
        )
        if why := x.law.outside(case):
            outside[a.label] = why
        else:
            losses[a.label] = x.law.loss(case)
    return {"id": x.law.id, "source": x.law.source, "grade": "fitted", "loss": losses, "outside": outside}


def _grades(x: PreparedLearning) -> dict[str, str]:
    """How well each figure is known."""
    out = {"order and gaps of losses": "assumed", "bytes": "analytic"}
    if x.target.timed:
        out |= {"seconds of a step": x.target.grade, "seconds of messages": "analytic"}
    return out


def _goal(x: PreparedLearning) -> dict[str, float]:
    """What curves have to reach."""
    target = x.spec.target
    if target is None:
        return {}
    return {k: v for k, v in (("loss", target.loss), ("metric", target.metric)) if v is not None}
