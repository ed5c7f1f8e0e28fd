"""Result of `reason`: accuracy, dollars, joules and latency of strategies. Units are in the names."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from windtunnel.population.accuracy import Accuracy
from windtunnel.versions import RESULT_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One candidate as it was simulated."""

    model: str
    strategy: str
    """Id."""
    label: str
    """Strategy with the knobs that were stated."""
    knobs: dict[str, Any]
    n: float | None
    """Attempts at each problem; None where the word has no meaning."""
    accuracy: Accuracy | None
    """None: nothing is known of the strategy's effect on quality."""
    cost_usd: float | None
    """A problem's share of the price of all devices, from the first arrival to the last end; None without prices."""
    energy_j: float | None
    """Of all devices, a problem; None where a device has no power figures."""
    latency_s: dict[str, float]
    """Of whole problems: mean, p50, p90, p99."""
    tokens: float
    """Generated, a problem, those of scores and of cancelled calls included."""
    prompt_tokens: float
    """Of all calls of a problem."""
    cached_tokens: float
    """Of these, found in the prefix cache."""
    calls: float
    """Calls of models, a problem."""
    flop: float
    """Of all calls of a problem: matrix products of what was computed, and attention."""
    read_bytes: float
    """Of keys and values, by the decode steps of a problem."""
    eflop: float
    """Equivalent FLOP (Kinetics): `flop`, and `read_bytes` times the FLOP that the device does while it reads one."""
    problems_per_s: float
    deadline_met: float | None
    """Share of problems that ended within `deadline_s`; None without one."""
    num_devices: int
    busy_share: float
    """Of the instances that answer, how much of the time they compute."""
    bound_by: str
    saturated: bool
    """Problems come faster than they are done: latencies grow with the run."""
    method: str = ""
    """`label` without the load."""
    load: float | None = None
    """Problems at once, or a second, where several loads are compared."""
    scored: bool = False
    """Whether answers are scored by calls to a verifier."""
    usd_per_day: float | None = None
    """Price of all devices."""
    capacity_problems_per_s: float | None = None
    """Problems a second that the devices do with all problems there at the start."""
    capacity_interval: dict[str, Any] | None = None
    intervals: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    """Intervals of cost_usd, energy_j, latency_p50_s and latency_p99_s: level, low, high; from those of serving."""
    on_front: bool = False
    """No other candidate is at least as good in accuracy, cost, energy and latency and better in one of them."""
    serving: dict[str, Any] = field(default_factory=dict)
    """Figures of each deployment: TTFT, TPOT, hit rate, power."""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data as `--json` prints it."""
        out = asdict(self)
        own = self.accuracy
        out["accuracy"] = None if own is None else own.mean
        out["accuracy_interval"] = None if own is None else own.to_dict()["interval"]
        out["accuracy_grade"] = None if own is None else own.grade
        out["cost"], out["joules"] = out["cost_usd"], out["energy_j"]
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonResult:
    """Candidates side by side, the front among them, and the best one."""

    scenario_name: str
    objective: str
    points: tuple[Point, ...]
    best: Point | None
    """Best by the objective within the limits; None where no candidate keeps them."""
    limits: dict[str, float]
    population: dict[str, Any]
    answers: dict[str, Any]
    """What a verifier is worth, where a second model pays, where own devices beat an API's price."""
    refused: tuple[dict[str, str], ...] = ()
    """Candidates that cannot be served, with the reason."""
    problems: int = 0
    deadline_s: float | None = None
    """Objective of a whole problem."""
    load_unit: str = ""
    """Unit of `Point.load`: problems at once, or problems a second; empty where one load is stated."""
    assumed: tuple[tuple[str, Any, str], ...] = ()
    warnings: tuple[str, ...] = ()
    scenario: dict[str, Any] = field(default_factory=dict)
    citations: tuple[str, ...] = ()
    currency: str = "USD"
    version: str = ""
    simulated_in_s: float = 0.0

    @property
    def last(self) -> Point:
        """The last candidate: that of a technique, where one names a strategy."""
        return self.points[-1]

    @property
    def front(self) -> tuple[Point, ...]:
        """Candidates that no other one beats, the least accurate first."""
        own = [p for p in self.points if p.on_front]
        return tuple(sorted(own, key=lambda p: (p.accuracy.mean if p.accuracy else -1.0, p.cost_usd or 0.0)))

    def to_dict(self) -> dict[str, Any]:
        """Plain data as `--json` prints it."""
        return {
            "schema_version": RESULT_SCHEMA,
            "scenario_name": self.scenario_name,
            "objective": self.objective,
            "front": [p.to_dict() for p in self.front],
            "candidates": [p.to_dict() for p in self.points],
            "best": None if self.best is None else self.best.to_dict(),
            "limits": self.limits,
            "population": self.population,
            "answers": self.answers,
            "refused": list(self.refused),
            "problems": self.problems,
            "deadline_s": self.deadline_s,
            "load_unit": self.load_unit,
            "assumed": [{"field": f, "value": v, "why": w} for f, v, w in self.assumed],
            "warnings": list(self.warnings),
            "scenario": self.scenario,
            "citations": list(self.citations),
            "currency": self.currency,
            "version": self.version,
            "simulated_in_s": self.simulated_in_s,
        }
