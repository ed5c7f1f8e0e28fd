"""Result of `learn`: curves on a clock, and figures of each algorithm. Units are in the names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from windtunnel.learning.records import AlgorithmFigures, TimedCurve
from windtunnel.versions import RESULT_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningResult:
    """Curves of algorithms side by side, against steps, simulated seconds, bytes and joules."""

    scenario_name: str
    task: str
    metric: str
    """What `metric` of points is; empty: the task has none."""
    floor: float | None
    """Lowest expected loss of the task, where it is known."""
    workers: int
    steps: int
    seeds: tuple[int, ...]
    curves: tuple[TimedCurve, ...]
    algorithms: tuple[AlgorithmFigures, ...]
    goal: dict[str, float]
    """loss or metric that curves have to reach; empty: none."""
    target: dict[str, Any]
    """What is timed: model, parameters, step_s, its source and confidence."""
    worker_steps_per_s: float | None
    """That this machine learned in a second of one process; None where all curves were kept from before."""
    law: dict[str, Any] = field(default_factory=dict)
    """A published law at the target's size: id, source, grade, loss by algorithm, and why not, by algorithm."""
    assumed: tuple[tuple[str, str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    grades: dict[str, str] = field(default_factory=dict)
    currency: str = "USD"
    interrupted: bool = False
    """Whether the user stopped it: curves are those that were learned until then."""
    scenario: dict[str, Any] = field(default_factory=dict)
    citations: tuple[str, ...] = ()
    version: str = ""
    simulated_in_s: float = 0.0

    @property
    def last(self) -> AlgorithmFigures:
        """Figures of the last algorithm, which is the one that a technique of the scenario adds."""
        return self.algorithms[-1]

    def of(self, label: str) -> AlgorithmFigures:
        """Figures of one algorithm.

        Raises:
            KeyError: there is no such label.
        """
        return {a.label: a for a in self.algorithms}[label]

    def to_dict(self) -> dict[str, Any]:
        """Plain data as `--json` prints it."""
        by = {a.label: a for a in self.algorithms}
        curves = [
            {"algorithm": c.algorithm, "seed": c.seed, "diverged_at": c.diverged_at, "points": c.points()}
            for c in self.curves
        ]
        asked = [a.resolved for a in self.algorithms if a.resolved is not None]
        out: dict[str, Any] = {
            "schema_version": RESULT_SCHEMA,
            "scenario_name": self.scenario_name,
            "curves": curves,
            "time_to_target_s": {k: a.time_to_target_s for k, a in by.items()},
            "resolved": all(asked) if asked else None,
            "bytes_per_worker_step": {k: a.bytes_per_worker_step for k, a in by.items()},
            "utilisation": {k: a.utilisation for k, a in by.items()},
            "staleness": {k: a.staleness for k, a in by.items()},
            "worker_steps_per_s": self.worker_steps_per_s,
            "verdicts": {k: {"resolved": a.resolved, "reasons": a.reasons} for k, a in by.items()},
            "algorithms": {k: a.to_dict() for k, a in by.items()},
        }
        skipped = {"scenario_name", "curves", "algorithms", "worker_steps_per_s", "assumed"}
        out |= {name: getattr(self, name) for name in self.__slots__ if name not in skipped}
        out["assumed"] = [{"field": f, "value": v, "why": w} for f, v, w in self.assumed]
        return out

    def figure(self) -> Any:
        """Charts: loss against steps, hours, bytes and joules."""
        from windtunnel.learning.charts import learning_figure

        return learning_figure(self)

    def __repr__(self) -> str:
        ends = ", ".join(f"{a.label} {a.loss:.4g}" for a in self.algorithms if a.loss is not None)
        return f"<{self.scenario_name}: {self.task}, {self.workers} workers, loss {ends}>"
