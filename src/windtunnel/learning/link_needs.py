"""What link does each algorithm need? Timed on the target alone; nothing is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from windtunnel.catalog.load import load
from windtunnel.errors import UNSET, ProblemList
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.prepare_learning import ChosenAlgorithm, chosen_algorithms, learning_rate_fields
from windtunnel.learning.scenario_target import ScenarioTarget, scenario_target
from windtunnel.learning.timing.bandwidth import bandwidth_for
from windtunnel.learning.timing.lock_step import LockStepRun
from windtunnel.learning.timing.on_target import built_on_target, with_work_of
from windtunnel.learning.timing.schedule import read_schedule
from windtunnel.scenarios.source import Source
from windtunnel.specs.learning import LearningSpec
from windtunnel.techniques import applied
from windtunnel.techniques.knobs import named
from windtunnel.versions import RESULT_SCHEMA

ROUNDS = 20
"""Rounds that are looked at, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmNeeds:
    """What one algorithm needs."""

    algorithm: str
    utilisation: float | None
    """On the scenario's own link; None where it has none."""
    bytes_per_s: tuple[float | None, ...]
    """Least rate of a worker's link, one direction, for each asked share; None where no rate is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkNeeds:
    """What all algorithms of a scenario need."""

    scenario_name: str
    workers: int
    target: dict[str, Any]
    shares: tuple[float, ...]
    """Asked shares of the time computing."""
    algorithms: tuple[AlgorithmNeeds, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data as `--json` prints it."""
        rows = {}
        for one in self.algorithms:
            needs = [
                {"utilisation": share, "bytes_per_s": rate, "gbit_per_s": None if rate is None else rate * 8e-9}
                for share, rate in zip(self.shares, one.bytes_per_s, strict=True)
            ]
            rows[one.algorithm] = {"utilisation": one.utilisation, "bandwidth_for": needs}
        own = {k: v for k, v in asdict(self).items() if k not in ("algorithms", "shares")}
        return {"schema_version": RESULT_SCHEMA, **own, "algorithms": rows}


def link_needs(source: Source, shares: Sequence[float], *, overrides: Sequence[str] = ()) -> LinkNeeds:
    """Least bandwidth with which workers of each algorithm compute for a share of their time.

    Messages are those of the algorithm on the target's own tensors; the scenario's latency, sites and speeds stay.

    Args:
        source: Path of a scenario file with a `learning` section, a mapping of its fields, or a `Scenario`.
        shares: Asked shares of the time computing, above 0 and below 1.
        overrides: Settings `key=value` as `--set` takes them.

    Raises:
        BadInput: everything wrong with it, at once.
    """
    scenario, lines, folder = load(source, overrides)
    problems = ProblemList(lines)
    spec = scenario.learning
    for share in shares:
        if not 0.0 < share < 1.0:
            problems.add("--bandwidth-for", share, "must lie between 0 and 1: a share of the time computing")
    if spec is None:
        problems.add("learning", UNSET, "is required for `learn`: workers, algorithms and a target")
        problems.raise_if_any()
        raise AssertionError("unreachable")
    chosen = applied(scenario.techniques, problems)
    algorithms = chosen_algorithms(spec, chosen, problems)
    for at, one in enumerate(algorithms):
        if one.kind.driver != "lock-step":
            rule = "has no rounds in which workers wait for each other; allowed: algorithms of the lock-step driver"
            problems.add(f"learning.algorithms.{at}", one.label, rule)
    target = scenario_target(scenario, chosen, (), folder, problems)
    if target is not None and not target.timed:
        problems.add("learning.step_s", UNSET, "is required to say what link is needed, or model, cluster and training")
    elif target is not None and not target.target.parameters:
        problems.add("learning.parameters", UNSET, "is required to say what link is needed, or a model")
    problems.raise_if_any()
    assert target is not None
    return LinkNeeds(
        scenario_name=scenario.name or f"{spec.workers} workers",
        workers=spec.workers,
        target=target.figures(),
        shares=tuple(shares),
        algorithms=tuple(_needs(one, spec, target, shares) for one in algorithms),
    )


def _needs(
    algorithm: ChosenAlgorithm, spec: LearningSpec, there: ScenarioTarget, shares: Sequence[float]
) -> AlgorithmNeeds:
    period = algorithm.knobs.get("period")
    steps = max(spec.steps, ROUNDS * period) if isinstance(period, int) else spec.steps
    name, _ = named(spec.inner)
    rate = replace(LearningRate(**learning_rate_fields(spec, None, [])), steps=steps)
    target, workers = there.target, spec.workers
    built = built_on_target(
        algorithm.kind.id, algorithm.knobs, target, workers, steps, lr=rate, inner=name, seed=spec.seed
    )
    target = with_work_of(built, target)
    schedule = read_schedule(built.messages, steps)
    used = None
    if target.link is not None:
        run = LockStepRun.of(schedule, target, workers, steps, spec.seed)
        used = run.utilisation(run.begins())
    return AlgorithmNeeds(
        algorithm=algorithm.label,
        utilisation=used,
        bytes_per_s=tuple(bandwidth_for(s, schedule, target, workers, steps=steps, seed=spec.seed) for s in shares),
    )
