"""One scenario under many loads: latency against throughput, where its objective breaks, where queues begin to grow.

Points share their seed: another rate scales the same gaps between the same requests, so that points differ by their
load and not by luck.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.extras import extra
from windtunnel.scenarios.source import Source
from windtunnel.serving.deployment import Deployment, prepare
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.simulate import serve_requests, with_traffic
from windtunnel.versions import RESULT_SCHEMA

AXES = {"rate": "rate_per_s", "concurrency": "concurrency", "time_scale": "time_scale"}
"""Word of `--sweep` → field of `serving.traffic`."""
UNITS = {"rate": "requests/s", "concurrency": "in flight", "time_scale": "times the trace's rate"}
POINTS = 9
_MOST_POINTS = 400
_CLOSE = 0.01
"""Loads that hold and that do not are this close, as a share, when a search ends."""
_STEPS_OUT = 14
"""Times that a search doubles (or halves) beyond the loads it was given."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Loads to run, in order."""

    name: str
    loads: tuple[float, ...]

    @property
    def whole(self) -> bool:
        """Whether loads are whole numbers."""
        return self.name == "concurrency"


def read_axis(text: str, points: int | None = None, *, linear: bool = False) -> Axis:
    """`rate=0.5..8` or `concurrency=1,8,64` as an axis.

    Args:
        text: name, `=`, and two ends or a list.
        points: of a range, its ends included.
        linear: evenly spaced points; else by equal factors.

    Raises:
        BadInput: nothing that can be swept.

    Example:
        >>> read_axis("rate=1..8", 4).loads
        (1.0, 2.0, 4.0, 8.0)
    """
    name, _, values = text.partition("=")
    name = name.strip()
    if name not in AXES:
        raise BadInput(f"--sweep = {text}: must be one of {', '.join(AXES)}, as in rate=0.5..8 or concurrency=1,8,64")
    ends = values.split("..")
    try:
        numbers = [float(v) for v in (ends if len(ends) == 2 else values.split(","))]
    except ValueError:
        raise BadInput(f"--sweep = {text}: must be two ends (0.5..8) or a list (1,2,4)") from None
    if not all(math.isfinite(v) and v > 0 for v in numbers):
        raise BadInput(f"--sweep = {text}: loads must be above 0")
    if len(ends) == 2:
        count = POINTS if points is None else points
        if not 2 <= count <= _MOST_POINTS:
            raise BadInput(f"--points = {count}: must be from 2 to {_MOST_POINTS}")
        low, high = sorted(numbers)
        step = [i / (count - 1) for i in range(count)]
        numbers = [low + (high - low) * s if linear else low * (high / low) ** s for s in step]
    elif points is not None:
        raise BadInput(f"--points = {points}: is read with a range such as {name}=1..8, not with a list")
    if name == "concurrency":
        if len(ends) != 2 and any(v != round(v) for v in numbers):
            raise BadInput(f"--sweep = {text}: concurrency counts whole requests")
        numbers = [float(round(v)) for v in numbers]
    return Axis(name, tuple(sorted({float(f"{v:.6g}") for v in numbers})))


def loaded(d: Deployment, axis: str, load: float) -> Deployment:
    """A deployment under another load.

    Raises:
        BadInput: its traffic cannot have that load.
    """
    t = d.serving.traffic
    field = f"serving.traffic.{AXES[axis]}"
    if axis == "time_scale" and t.trace is None:
        raise BadInput(Problem(field, "can be swept with a trace alone; sweep rate or concurrency"))
    if axis == "rate" and t.trace is not None:
        raise BadInput(Problem(field, "cannot be swept with a trace, which has its own rate; sweep time_scale"))
    changes: dict[str, Any] = {AXES[axis]: int(load) if axis == "concurrency" else load}
    if axis != "time_scale":
        other = "rate_per_s" if axis == "concurrency" else "concurrency"
        changes |= {other: None, "offline": False}
        if axis == "concurrency" and t.num_requests is None and t.trace is None:
            raise BadInput(Problem("serving.traffic.num_requests", "is required by a sweep of concurrency"))
    serving = d.serving.model_copy(update={"traffic": t.model_copy(update=changes)})
    concurrency = int(load) if axis == "concurrency" else (0 if axis == "rate" else d.concurrency)
    scenario = d.scenario.model_copy(update={"serving": serving})
    return replace(d, serving=serving, scenario=scenario, concurrency=concurrency)


def serve_once(d: Deployment) -> ServingResult:
    """One run of a deployment's own traffic."""
    begun = time.perf_counter()
    d, traffic = with_traffic(d)
    result = serve_requests(d, traffic.requests, assumed=traffic.assumed)
    return replace(result, simulated_in_s=time.perf_counter() - begun)


def slim(result: ServingResult) -> ServingResult:
    """A result without its requests and events."""
    return replace(result, table={}, record=None)


@dataclass(frozen=True, slots=True)
class Point:
    """One load and what came out; requests and events are dropped."""

    load: float
    result: ServingResult
    asked: bool = True
    """Whether it is one of the axis, not one that a search tried."""

    def to_dict(self) -> dict[str, Any]:
        """Figures of the point, without what all points share."""
        shared = {
            "scenario",
            "assumed",
            "limits",
            "capacity",
            "citations",
            "scenario_name",
            "version",
            "schema_version",
            "warnings",
        }
        return {"load": self.load, **{k: v for k, v in self.result.to_dict().items() if k not in shared}}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """Loads in order, and the three that matter."""

    scenario_name: str
    axis: str
    unit: str
    points: tuple[Point, ...]
    """Runs at the loads of the axis."""
    tried: tuple[Point, ...]
    """All that ran, those of the searches included, by load."""
    knee: Point | None
    """Largest load that meets the objective (without one: that has a steady state); None where none does."""
    broken: float | None
    """Smallest load above the knee that does not; None where none was found."""
    saturation: float | None
    """Load from which the queue grows without end; None in a closed loop, or where none was found."""
    best: Point
    """Highest goodput."""
    objective: bool
    """Whether an objective is set."""
    warnings: tuple[str, ...]
    elapsed_s: float
    version: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        full = self.knee or self.best
        plain = full.result.to_dict()
        shared = ("scenario", "assumed", "limits", "capacity")
        return {
            "schema_version": RESULT_SCHEMA,
            "scenario_name": self.scenario_name,
            "axis": self.axis,
            "unit": self.unit,
            "points": [p.to_dict() for p in self.points],
            "knee": None if self.knee is None else self.knee.to_dict(),
            "broken_at": self.broken,
            "saturation_at": self.saturation,
            "best_goodput": self.best.to_dict(),
            "runs": len(self.tried),
            "warnings": list(self.warnings),
            "elapsed_s": self.elapsed_s,
            "version": self.version,
            **{name: plain[name] for name in shared},
        }

    def as_overrides(self) -> tuple[str, ...]:
        """Settings that turn the scenario into the one at the knee (without one: at the best goodput)."""
        load, field = (self.knee or self.best).load, AXES[self.axis]
        out = [f"serving.traffic.{field}={load:.9g}"]
        if self.axis == "rate":
            out += ["serving.traffic.concurrency=null", "serving.traffic.offline=false"]
        elif self.axis == "concurrency":
            out += ["serving.traffic.rate_per_s=null", "serving.traffic.offline=false"]
        return tuple(out)

    def to_frame(self) -> Any:
        """Pandas frame, one row a load."""
        pd = extra("pandas")

        return pd.DataFrame([row(p) for p in self.points])


def row(p: Point) -> dict[str, float]:
    """Figures of one load, as a table has them."""
    r = p.result
    return {
        "load": p.load,
        "throughput_requests_per_s": r.throughput_requests_per_s,
        "output_tokens_per_s": r.output_tokens_per_s,
        "output_tokens_per_s_per_device": r.output_tokens_per_s_per_device,
        "output_tokens_per_s_per_user": r.output_tokens_per_s_per_user,
        "ttft_p50_s": r.ttft_s.p50,
        "ttft_p99_s": r.ttft_s.p99,
        "tpot_p50_s": r.tpot_s.p50,
        "tpot_p99_s": r.tpot_s.p99,
        "e2e_p50_s": r.e2e_s.p50,
        "slo_attainment": r.slo_attainment,
        "goodput_requests_per_s": r.goodput_requests_per_s,
        "kv_cache_usage_max": r.kv_cache_usage_max,
        "preemptions": r.preemptions,
        "saturated": float(r.saturated),
    }


def holds(result: ServingResult) -> bool:
    """Whether a load can be borne: a steady state, and the objective where there is one."""
    return result.slo_met and not result.saturated


class _Runs:
    """Runs that were made, by load; the rest of a result is dropped."""

    def __init__(self, d: Deployment, axis: Axis, report: Callable[[int], None] | None) -> None:
        self.d, self.axis, self.report = d, axis, report
        self.points: dict[float, Point] = {}

    def keep(self, load: float, result: ServingResult) -> None:
        """Keep a run that was made elsewhere."""
        self.points[load] = Point(load, slim(result), load in self.axis.loads)
        if self.report is not None:
            self.report(len(self.points))

    def at(self, load: float) -> ServingResult:
        load = float(round(load)) if self.axis.whole else load
        if load not in self.points:
            self.keep(load, serve_once(loaded(self.d, self.axis.name, load)))
        return self.points[load].result

    def edge(self, good: Callable[[ServingResult], bool]) -> tuple[float | None, float | None]:
        """Largest load that is good and smallest above it that is not, to a hundredth; None where there is none."""
        below: float | None = None
        above: float | None = None
        for load in self.axis.loads:
            if not good(self.at(load)):
                above = load
                break
            below = load
        least = 1.0 if self.axis.whole else 0.0
        for _ in range(_STEPS_OUT):
            if above is None and below is not None:
                wider = below * 2
                below, above = (wider, None) if good(self.at(wider)) else (below, wider)
            elif below is None and above is not None and above > least:
                lower = max(above // 2 if self.axis.whole else above / 2, least)
                below, above = (lower, above) if good(self.at(lower)) else (None, lower)
        while below is not None and above is not None and above - below > self._near(below):
            middle = 0.5 * (below + above) if self.axis.whole else math.sqrt(below * above)
            middle = float(round(middle)) if self.axis.whole else float(f"{middle:.4g}")
            if not below < middle < above:
                break
            below, above = (middle, above) if good(self.at(middle)) else (below, middle)
        return below, above

    def _near(self, load: float) -> float:
        return 1.0 if self.axis.whole else _CLOSE * load


def sweep(
    source: Source,
    axis: Axis,
    *,
    overrides: Sequence[str] = (),
    report: Callable[[int], None] | None = None,
    elsewhere: Callable[[], Iterable[tuple[float, ServingResult]]] | None = None,
) -> SweepResult:
    """Run a scenario over an axis of loads and find its knee.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        axis: of `read_axis`.
        overrides: `key=value` settings as `--set` takes them.
        report: called with the number of runs as they are made.
        elsewhere: runs at the loads of the axis, made in other processes, as they come; searches run here.

    Raises:
        BadInput: everything wrong with the scenario, or an axis that its traffic does not have.
        Infeasible: the model does not fit.
    """
    begun = time.perf_counter()
    d = prepare(source, overrides=overrides)
    slo = d.serving.slo
    objective = any(v is not None for v in (slo.ttft_s, slo.tpot_s, slo.e2e_s))
    runs = _Runs(d, axis, report)
    if elsewhere is not None:
        loaded(d, axis.name, axis.loads[0])  # an axis that the traffic does not have is refused at once
        for load, result in elsewhere():
            runs.keep(load, result)
    for load in axis.loads:
        runs.at(load)
    closed = axis.name == "concurrency" or bool(d.serving.traffic.concurrency)
    below, broken = runs.edge(holds) if objective or not closed else (None, None)
    saturation = None if closed else runs.edge(lambda r: not r.saturated)[1]
    tried = tuple(runs.points[load] for load in sorted(runs.points))
    asked = tuple(p for p in tried if p.asked)
    best = max(tried, key=lambda p: p.result.goodput_requests_per_s)
    warnings = _warnings(asked, broken)
    return SweepResult(
        scenario_name=tried[0].result.scenario_name,
        axis=axis.name,
        unit=UNITS[axis.name],
        points=asked,
        tried=tried,
        knee=None if below is None else runs.points[below],
        broken=broken,
        saturation=saturation,
        best=best,
        objective=objective,
        warnings=warnings,
        elapsed_s=time.perf_counter() - begun,
        version=tried[0].result.version,
    )


def _warnings(asked: Sequence[Point], broken: float | None) -> tuple[str, ...]:
    out = []
    again = [p.load for p in asked if broken is not None and p.load > broken and holds(p.result)]
    if again:
        out.append(f"loads {', '.join(f'{v:g}' for v in again)} hold above one that does not: the knee is the first")
    warned = [p for p in asked if p.result.warnings and not p.result.saturated]
    if warned:
        loads = ", ".join(f"{p.load:,.4g}" for p in warned)
        out.append(f"at {loads}: {warned[-1].result.warnings[0]}")
    if any(p.result.requests < 200 for p in asked):
        out.append("fewer than 200 requests a point: percentiles and the knee are rough; ask for more (num_requests)")
    return tuple(out)
