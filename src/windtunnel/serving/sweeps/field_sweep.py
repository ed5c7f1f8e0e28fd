"""One scenario under several values of any of its fields: `serving.precision.weights=bf16,fp8`.

Every value runs with the same requests, so that what differs is the field's doing. A value that cannot be, or does not
fit, is a row with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.errors import BadInput, Infeasible
from windtunnel.extras import extra
from windtunnel.scenarios.source import Source
from windtunnel.serving.deployment import prepare
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.sweeps.load_sweep import AXES, POINTS, holds, row, serve_once, slim
from windtunnel.serving.sweeps.load_sweep import Point as LoadPoint
from windtunnel.versions import RESULT_SCHEMA

_MOST = 200


@dataclass(frozen=True, slots=True)
class FieldAxis:
    """A field of the scenario and its values, as `--set` takes them."""

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldPoint:
    """One value and what came out; requests and events are dropped."""

    value: str
    result: ServingResult | None
    reason: str = ""
    """Why there is no result."""

    def to_dict(self) -> dict[str, Any]:
        """Figures of the point."""
        if self.result is None:
            return {"value": self.value, "reason": self.reason}
        return {"value": self.value, "slo_met": holds(self.result), **_figures(self.result)}


@dataclass(frozen=True, slots=True)
class FieldSweep:
    """All values in order."""

    scenario_name: str
    field: str
    points: tuple[FieldPoint, ...]
    best: FieldPoint | None
    """Highest goodput of those that keep the objective and have a steady state."""
    elapsed_s: float
    version: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "schema_version": RESULT_SCHEMA,
            "scenario_name": self.scenario_name,
            "field": self.field,
            "points": [p.to_dict() for p in self.points],
            "best": self.best and self.best.value,
            "elapsed_s": self.elapsed_s,
            "version": self.version,
        }

    def to_frame(self) -> Any:
        """Pandas frame, one row a value."""
        pd = extra("pandas")

        return pd.DataFrame([p.to_dict() for p in self.points])


def _figures(result: ServingResult) -> dict[str, Any]:
    out: dict[str, Any] = {k: v for k, v in row(LoadPoint(0.0, result)).items() if k != "load"}
    return out | {"num_devices": result.num_devices, "saturated": result.saturated, "bound_by": result.bound_by}


def is_field(text: str) -> bool:
    """Whether a `--sweep` names a field, not a load."""
    name = text.partition("=")[0].strip()
    return name not in AXES and "." in name


def read_field(text: str, points: int | None = None, *, linear: bool = False) -> FieldAxis:
    """`serving.traffic.seed=1,2,3` or `serving.pools.0.limits.max_num_seqs=16..256` as an axis.

    Args:
        text: field, `=`, and values after commas, or two whole numbers with `..` between.
        points: of a range, its ends included.
        linear: evenly spaced values of a range; else by equal factors.

    Raises:
        BadInput: no values, or too many.

    Example:
        >>> read_field("serving.pools.0.limits.max_num_seqs=16..128", 4).values
        ('16', '32', '64', '128')
    """
    name, _, given = text.partition("=")
    ends = given.split("..")
    values = [v.strip() for v in _parts(given)]
    if len(ends) == 2 and all(e.strip().isdigit() and int(e) > 0 for e in ends):
        low, high = sorted(int(e) for e in ends)
        count = POINTS if points is None else points
        if not 2 <= count <= _MOST:
            raise BadInput(f"--points = {count}: must be from 2 to {_MOST}")
        steps = [i / (count - 1) for i in range(count)]
        numbers = [low + (high - low) * s if linear else low * (high / low) ** s for s in steps]
        values = [str(n) for n in dict.fromkeys(round(n) for n in numbers)]
    elif points is not None:
        raise BadInput(f"--points = {points}: is read with a range of whole numbers such as {name}=16..256")
    if not all(values) or not values or len(values) > _MOST:
        raise BadInput(f"--sweep = {text}: needs 1 to {_MOST} values after the field, as in {name or 'field'}=a,b,c")
    return FieldAxis(name.strip(), tuple(dict.fromkeys(values)))


def _parts(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    out, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            out.append("")
        else:
            out[-1] += letter
    return out


def with_value(
    source: Source, axis: FieldAxis, value: str, overrides: Sequence[str]
) -> ServingResult | BadInput | Infeasible:
    """The run with one value of the field, without its requests and events, or why there is none."""
    try:
        return slim(serve_once(prepare(source, overrides=[*overrides, f"{axis.field}={value}"])))
    except (BadInput, Infeasible) as error:
        return error


def sweep_field(
    source: Source,
    axis: FieldAxis,
    *,
    overrides: Sequence[str] = (),
    report: Callable[[int], None] | None = None,
    elsewhere: Callable[[], Iterable[tuple[str, ServingResult | BadInput | Infeasible]]] | None = None,
) -> FieldSweep:
    """Run a scenario once for each value of a field.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        axis: of `read_field`.
        overrides: `key=value` settings as `--set` takes them.
        report: called with the number of runs as they are made.
        elsewhere: what each value makes, computed in other processes, as it comes.

    Raises:
        BadInput: everything wrong with the scenario, where no value is right.
    """
    begun = time.perf_counter()
    found: dict[str, ServingResult | BadInput | Infeasible] = {}
    here = ((value, with_value(source, axis, value, overrides)) for value in axis.values)
    for value, one in here if elsewhere is None else elsewhere():
        found[value] = one
        if report is not None:
            report(len(found))
    ordered = [(value, found[value]) for value in axis.values]
    wrong = [one for _, one in ordered if isinstance(one, BadInput)]
    points = [
        FieldPoint(value, one)
        if isinstance(one, ServingResult)
        else FieldPoint(value, None, " ".join(str(one).split()))
        for value, one in ordered
    ]
    if len(wrong) == len(points):
        raise wrong[0]
    from windtunnel import __version__

    good = [p for p in points if p.result is not None and holds(p.result)]
    best = max(good, key=lambda p: p.result.goodput_requests_per_s if p.result else 0.0, default=None)
    name = next((p.result.scenario_name for p in points if p.result is not None), "")
    return FieldSweep(name, axis.field, tuple(points), best, time.perf_counter() - begun, __version__)
